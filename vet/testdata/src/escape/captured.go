package escape

import (
	"context"
	"fmt"
	"net/http"
	"sort"
	"sync"
	"time"

	"github.com/tarn-go/tarn"
)

type hooks struct {
	f  func() byte
	fs []func() byte
	m  map[string]func() byte
}

func (h *hooks) run()              { _ = h.f() }
func (h *hooks) set(f func() byte) { h.f = f }

var global func() byte

func inReturned(p *tarn.Pool) func() int {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	return func() int { return len(v) } // want `escape: bytes of b are used by a function literal that is returned, but it was freed at line \d+; free it in the literal`
}

func handleInReturned(p *tarn.Pool) func() int {
	b := p.Get(10)
	defer b.Free()
	return func() int { return len(b.Bytes()) } // want `escape: bytes of b are used by a function literal that is returned`
}

func inReturnedVariable(p *tarn.Pool) func() byte {
	b := p.Get(10)
	v := b.Bytes()
	f := func() byte { return v[0] }
	b.Free()
	return f // want `escape: bytes of b are used by a function literal that is returned`
}

func inIterator(p *tarn.Pool) func(yield func(byte) bool) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	return func(yield func(byte) bool) { // want `escape: bytes of b are used by a function literal`
		for _, x := range v {
			if !yield(x) {
				return
			}
		}
	}
}

func returnedWithFree(p *tarn.Pool) (func() int, func()) {
	b := p.Get(10)
	v := b.Bytes()
	return func() int { return len(v) }, b.Free
}

func inField(p *tarn.Pool, h *hooks) {
	b := p.Get(10)
	v := b.Bytes()
	h.f = func() byte { return v[0] } // want `escape: bytes of b are stored in h.f here and outlive it`
	b.Free()
}

func inFieldForAWhile(p *tarn.Pool, h *hooks) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	h.f = func() byte { return v[0] }
	h.run()
	h.f = nil
}

func inFieldThatACallMayClear(p *tarn.Pool, h *hooks) {
	b := p.Get(10)
	v := b.Bytes()
	h.f = func() byte { return v[0] }
	h.run()
	b.Free()
}

func inMap(p *tarn.Pool, h *hooks) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	h.m["x"] = func() byte { return v[0] } // want `escape: bytes of b are stored in a map here and outlive it`
}

func inSlice(p *tarn.Pool, h *hooks) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	h.fs = append(h.fs, func() byte { return v[0] }) // want `escape: bytes of b are stored in h.fs here`
}

func inGlobal(p *tarn.Pool) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	global = func() byte { return v[0] } // want `escape: bytes of b are stored in global here`
}

func inSent(p *tarn.Pool, out chan func() byte) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	out <- func() byte { return v[0] } // want `escape: bytes of b are sent here`
}

func keptByMethod(p *tarn.Pool, h *hooks) {
	b := p.Get(10)
	v := b.Bytes()
	h.set(func() byte { return v[0] }) // want `escape: bytes of b are kept by h.set here`
	b.Free()
}

func inTimer(p *tarn.Pool) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	time.AfterFunc(time.Second, func() { fmt.Println(v[0]) }) // want `escape: the function that is set up here runs when the timer fires and uses bytes of b, which is freed before; free b in it`
}

func inContext(p *tarn.Pool, ctx context.Context) {
	b := p.Get(10)
	v := b.Bytes()
	context.AfterFunc(ctx, func() { v[0] = 0 }) // want `escape: the function that is set up here runs when the context ends`
	b.Free()
}

func inContextAndStopped(p *tarn.Pool, ctx context.Context) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	stop := context.AfterFunc(ctx, func() { v[0] = 0 })
	defer stop()
}

func inGoroutine(p *tarn.Pool) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	go func() { fmt.Println(v[0]) }() // want `escape: bytes of b are used by a goroutine that is started here, and b is freed later in this function`
}

func handleInGoroutine(p *tarn.Pool) {
	b := p.Get(10)
	defer b.Free()
	go func() { fmt.Println(b.Bytes()) }() // want `escape: bytes of b are used by a goroutine .* wait for it, or give it b.Ref\(\) to free`
}

func awaited(p *tarn.Pool) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); fmt.Println(v[0]) }()
	wg.Wait()
}

func awaitedByChannel(p *tarn.Pool) {
	b := p.Get(10)
	defer b.Free()
	done := make(chan struct{})
	go func() { defer close(done); fmt.Println(b.Bytes()) }()
	<-done
}

func awaitedBySemaphore(p *tarn.Pool, n int) {
	b := p.Get(10)
	defer b.Free()
	sem := make(chan struct{}, n)
	for i := range n {
		sem <- struct{}{}
		go func() {
			defer func() { <-sem }()
			b.Bytes()[i] = 1
		}()
	}
	for range n {
		sem <- struct{}{}
	}
}

// What is only called while the reference lives.
func calledHere(p *tarn.Pool, once *sync.Once, each func(func(byte) bool)) (n int) {
	b := p.Get(10)
	defer b.Free()
	v := b.Bytes()
	defer func() { fmt.Println(v[0]) }()
	sort.Slice(v, func(i, j int) bool { return v[i] < v[j] })
	once.Do(func() { v[0] = 1 })
	each(func(x byte) bool { n += int(v[0]); return true })
	count := func(x byte) { n += int(v[x]) }
	count(1)
	for x := range func(yield func(byte) bool) {
		for _, x := range v {
			if !yield(x) {
				return
			}
		}
	} {
		n += int(x)
	}
	return n
}

func inHandler(p *tarn.Pool, mux *http.ServeMux) {
	b := p.Get(10)
	v := b.Bytes()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.Write(v) }) // want `escape: the function that is set up here runs for each request`
	b.Free()
}

// As long as the program runs.
func inHandlerForGood(p *tarn.Pool, mux *http.ServeMux) {
	page := p.Get(10)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { w.Write(page.Bytes()) })
}
