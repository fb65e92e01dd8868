package use

import "github.com/tarn-go/tarn"

func afterSend(p *tarn.Pool, ch chan tarn.Buffer) int {
	b := p.Get(10)
	ch <- b
	return len(b.Bytes()) // want `use after free: b was sent at line \d+ and is used here: its receiver owns it; use it before, or send b.Ref\(\)`
}

func freedAfterSend(p *tarn.Pool, ch chan tarn.Buffer) {
	b := p.Get(10)
	ch <- b
	b.Free() // want `use after free: b was sent at line \d+ and is freed here`
}

func deferredFreeAfterSend(p *tarn.Pool, ch chan tarn.Buffer) {
	b := p.Get(10)
	defer b.Free() // want `use after free: b was sent at line \d+`
	ch <- b
}

func bytesAfterSend(p *tarn.Pool, ch chan tarn.Buffer) byte {
	b := p.Get(10)
	v := b.Bytes()
	ch <- b
	return v[0] // want `use after free: these are bytes of b, which was sent at line \d+`
}

func afterSendInSelect(p *tarn.Pool, ch chan tarn.Buffer, done chan struct{}) byte {
	b := p.Get(10)
	select {
	case ch <- b:
		return b.Bytes()[0] // want `use after free: b was sent at line \d+`
	case <-done:
		b.Free()
		return 0
	}
}

func post(ch chan tarn.Buffer, b tarn.Buffer) { ch <- b }

func afterSendByHelper(p *tarn.Pool, ch chan tarn.Buffer) {
	b := p.Get(10)
	post(ch, b)
	b.Free() // want `use after free: post took ownership of b`
}

func lengthAfterSend(p *tarn.Pool, ch chan tarn.Buffer) int {
	b := p.Get(10)
	ch <- b
	return b.Len()
}

func sentAndReturned(p *tarn.Pool, ch chan tarn.Buffer, done chan struct{}) {
	b := p.Get(10)
	ch <- b
	<-done
	b.Free()
	c := p.Get(10)
	post(ch, c)
	<-done
	c.Free()
}

func roundTrip(p *tarn.Pool, out, in chan tarn.Buffer, n int) {
	b := p.Get(10)
	for range n {
		out <- b
		b = <-in
		b.Bytes()[0]++
	}
	b.Free()
}

func refSent(p *tarn.Pool, ch chan tarn.Buffer) byte {
	b := p.Get(10)
	ch <- b.Ref()
	defer b.Free()
	return b.Bytes()[0]
}

type delivery struct {
	body tarn.Buffer
	err  error
}

func deliveredAndUsedAfterFree(ch chan delivery) int {
	d := <-ch
	if d.err != nil {
		return 0
	}
	d.body.Free()
	return len(d.body.Bytes()) // want `use after free`
}

func afterSendInStruct(p *tarn.Pool, ch chan delivery) {
	b := p.Get(10)
	ch <- delivery{body: b}
	b.Free() // want `use after free: b was sent at line \d+ and is freed here`
}

type order struct {
	body tarn.Buffer
	done chan struct{}
}

func (o order) Free() { o.body.Free() }

// Its receiver tells when it is done.
func afterSendWithChannel(p *tarn.Pool, ch chan order) {
	b := p.Get(10)
	o := order{b, make(chan struct{})}
	ch <- o
	<-o.done
	b.Free()
}

func refSentInStruct(p *tarn.Pool, ch chan delivery) byte {
	b := p.Get(10)
	defer b.Free()
	ch <- delivery{body: b.Ref()}
	return b.Bytes()[0]
}
