package leak

import (
	"context"

	"github.com/tarn-go/tarn"
)

func received(ch chan tarn.Buffer) int {
	b := <-ch // want `leak: b from <-ch is not freed on the path that returns at line \d+; call b.Free\(\) there`
	return len(b.Bytes())
}

func receivedAndFreed(ch chan tarn.Buffer) {
	b := <-ch
	b.Free()
}

func receivedAndReturned(ch chan tarn.Buffer) tarn.Buffer { return <-ch }

func passedOn(in, out chan tarn.Buffer) { out <- <-in }

func receivedUntilClosed(ch chan tarn.Buffer) {
	b, ok := <-ch
	if !ok {
		return
	}
	b.Free()
}

func receivedWithOK(ch chan tarn.Buffer) int {
	b, ok := <-ch // want `leak: b from <-ch is not freed`
	if !ok {
		return 0
	}
	return len(b.Bytes())
}

func ranged(ch chan tarn.Buffer) (n int) {
	for b := range ch { // want `leak: b from <-ch is not freed before the next iteration of the loop`
		n += len(b.Bytes())
	}
	return n
}

func rangedAndFreed(ch chan tarn.Buffer) {
	for b := range ch {
		b.Free()
	}
}

func ignoredReceive(ch chan tarn.Buffer) {
	<-ch // want `leak: the result of <-ch is a reference to be freed, and is ignored`
}

func selected(ch chan tarn.Buffer, done chan struct{}) int {
	select {
	case b := <-ch: // want `leak: .* is not freed`
		return len(b.Bytes())
	case <-done:
		return 0
	}
}

func selectedAndFreed(ch, other chan tarn.Buffer, done chan struct{}) {
	for {
		select {
		case b, ok := <-ch:
			if !ok {
				return
			}
			b.Free()
		case b := <-other:
			b.Free()
		case <-done:
			return
		}
	}
}

func selectedBySend(ch chan tarn.Buffer, p *tarn.Pool) {
	b := p.Get(10)
	select {
	case ch <- b:
	case other := <-ch:
		other.Free()
		b.Free()
	}
}

func selectedBySendOrCancelled(ch chan tarn.Buffer, ctx context.Context, p *tarn.Pool) error {
	b := p.Get(10) // want `leak: b from p.Get is not freed on the path that returns at line \d+`
	select {
	case ch <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func selectedBySendOrFreed(ch chan tarn.Buffer, ctx context.Context, p *tarn.Pool) error {
	b := p.Get(10)
	select {
	case ch <- b:
		return nil
	case <-ctx.Done():
		b.Free()
		return ctx.Err()
	}
}

type packet struct{ head, body tarn.Buffer }

func (p packet) Free() { // want `leak: Free does not free the field body, which holds references`
	p.head.Free()
}

func selectedInPacket(ch chan packet, ctx context.Context, p *tarn.Pool) error {
	head, body := p.Get(10), p.Get(100) // want `leak: body from p.Get is not freed on the path that returns at line \d+`
	select {
	case ch <- packet{head, body}: // want `leak: the field body of packet takes a reference here`
		return nil
	case <-ctx.Done():
		head.Free()
		return ctx.Err()
	}
}

func lentToGoroutine(p *tarn.Pool, done chan int) {
	b := p.Get(10) // want `leak: b from p.Get is not freed`
	go func() { done <- len(b.Bytes()) }()
	<-done
}

func givenToGoroutine(p *tarn.Pool, done chan int) {
	b := p.Get(10)
	go func() {
		defer b.Free()
		done <- len(b.Bytes())
	}()
	<-done
}

func lentAndFreed(p *tarn.Pool, done chan int) {
	b := p.Get(10)
	go func() { done <- len(b.Bytes()) }()
	<-done
	b.Free()
}

func receivedChain(ch chan tarn.Chain) int {
	c := <-ch // want `leak: c from <-ch is not freed`
	return c.Len()
}

func receivedChainFreed(ch chan tarn.Chain) int {
	c := <-ch
	defer c.Free()
	return c.Len()
}

func collectedOrFreed(p *tarn.Pool, work func()) {
	var held []tarn.Buffer
	for i := range 100 {
		b := p.Get(i) // want `leak: b from p.Get is not freed before the next iteration of the loop`
		if i%10 == 0 {
			held = append(held, b)
			continue
		}
	}
	defer func() {
		for _, b := range held {
			b.Free()
		}
	}()
	work()
}

func array(p *tarn.Pool) {
	keys := make([]tarn.Buffer, 3)
	for i := range keys {
		keys[i] = p.Get(8)
		copy(keys[i].Bytes(), "key")
	}
	for _, k := range keys {
		use(k.Bytes())
	}
}

func use([]byte) {}
