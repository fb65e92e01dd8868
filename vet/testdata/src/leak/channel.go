package leak

import (
	"context"
	"fmt"
	"sync"

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

type datagram struct{ head, body tarn.Buffer }

func (p datagram) Free() { // want `leak: Free does not free the field body, which holds references`
	p.head.Free()
}

func selectedInPacket(ch chan datagram, ctx context.Context, p *tarn.Pool) error {
	head, body := p.Get(10), p.Get(100) // want `leak: body from p.Get is not freed on the path that returns at line \d+`
	select {
	case ch <- datagram{head, body}: // want `leak: the field body of datagram takes a reference here`
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
		keys[i] = p.Get(8) // want `leak: a slice takes references here, and nothing in this function frees its elements or gives them away`
		copy(keys[i].Bytes(), "key")
	}
	for _, k := range keys {
		use(k.Bytes())
	}
}

func use([]byte) {}

func readInGroup(p *tarn.Pool) {
	b := p.Get(10) // want `leak: b from p.Get is not freed`
	var wg sync.WaitGroup
	wg.Go(func() { fmt.Println(b.Bytes()) })
	wg.Wait()
}

func droppedInLoop(b tarn.Buffer, subs []chan tarn.Buffer) (dropped int) {
	for _, c := range subs {
		ref := b.Ref() // want `leak: ref from b.Ref is not freed before the next iteration of the loop takes another one`
		select {
		case c <- ref:
		default:
			dropped++
		}
	}
	return dropped
}

func droppedInLoopAndFreed(b tarn.Buffer, subs []chan tarn.Buffer) (dropped int) {
	for _, c := range subs {
		ref := b.Ref()
		select {
		case c <- ref:
		default:
			ref.Free()
			dropped++
		}
	}
	return dropped
}

type parcel struct {
	b    tarn.Buffer
	from int
}

// route takes ownership of p.b.
func route(p parcel, ch chan parcel) bool { // want `leak: route takes ownership of p`
	if p.from == 0 {
		return false
	}
	ch <- p
	return true
}

func routed(ch chan parcel) {
	d := <-ch
	d.b.Free()
}
