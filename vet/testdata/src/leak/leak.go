package leak

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tarn-go/tarn"
)

var errShort = errors.New("short")

func earlyReturn(p *tarn.Pool, r io.Reader) error {
	b := p.Get(100) // want `leak: b from p.Get is not freed on the path that returns at line \d+`
	if _, err := io.ReadFull(r, b.Bytes()); err != nil {
		return err
	}
	b.Free()
	return nil
}

func never(p *tarn.Pool) {
	b := p.Get(100) // want `leak: b from p.Get is not freed when the function ends.*; call b.Free\(\) there`
	_ = b.Len()
}

func afterAcquire(p *tarn.Pool) (int, error) {
	b, err := p.Acquire(context.Background(), 10) // want `leak: b from p.Acquire is not freed on the path that returns at line \d+`
	if err != nil {
		return 0, err // nothing to free with an error: rule 4
	}
	n := b.Len()
	if n < 5 {
		return 0, errShort
	}
	b.Free()
	return n, nil
}

func inLoop(p *tarn.Pool, n int) {
	for i := 0; i < n; i++ {
		b := p.Get(i + 1) // want `leak: b from p.Get is not freed before the next iteration of the loop`
		if i == 3 {
			continue
		}
		b.Free()
	}
}

func inSelect(p *tarn.Pool, out chan tarn.Buffer, done chan struct{}) {
	b := p.Get(10) // want `leak: b from p.Get is not freed`
	select {
	case out <- b:
	case <-done:
	}
}

func inSwitch(p *tarn.Pool, k int) {
	b := p.Get(10) // want `leak: b from p.Get is not freed`
	switch k {
	case 0:
		b.Free()
	case 1:
		defer b.Free()
	default:
	}
}

func ignored(p *tarn.Pool, b tarn.Buffer) {
	p.Get(10)               // want `leak: the result of p.Get is a reference to be freed, and is ignored`
	b.Ref()                 // want `leak: the result of b.Ref is a reference`
	_, _ = b.Slice(0, 1), 1 // want `leak: the reference from b.Slice is not freed`
}

func oneOfTwo(p *tarn.Pool) {
	head, tail := p.Get(10).Split(5) // want `leak: tail from p.Get\(10\).Split is not freed`
	head.Free()
	_ = tail.Len()
}

func overwritten(p *tarn.Pool) {
	b := p.Get(10) // want `leak: b from p.Get is not freed`
	b = p.Get(20)
	b.Free()
}

func slicedOver(p *tarn.Pool) {
	b := p.Get(100)
	b = b.Slice(0, 10) // want `leak: b = b.Slice\(…\) takes a second reference and loses the first one from p.Get; b.Narrow\(…\) keeps one`
	b.Free()
}

func chainForgotten(p *tarn.Pool, fail bool) error {
	var c tarn.Chain
	c.Append(p.Get(10)) // want `leak: c holds what this call put in, and is not freed on the path that returns at line \d+`
	if fail {
		return errShort
	}
	c.Free()
	return nil
}

func cutForgotten(c *tarn.Chain) int {
	head, err := c.Cut(10) // want `leak: head from c.Cut is not freed`
	if err != nil {
		return 0
	}
	return head.Len()
}

func writtenInPart(p *tarn.Pool, w io.Writer) error {
	var c tarn.Chain
	c.Append(p.Get(10)) // want `leak: c holds what this call put in`
	if _, err := c.WriteTo(w); err != nil {
		return err // the rest is still in c
	}
	return nil
}

func writerForgotten(p *tarn.Pool) int {
	w := tarn.NewWriter(p)
	w.Write([]byte("x")) // want `leak: w holds what this call put in`
	return w.Len()
}

func arenaForgotten(p *tarn.Pool) {
	a := tarn.NewArena(p, 1<<10)
	a.Get(10).Free() // want `leak: a holds what this call put in`
}

func collected(p *tarn.Pool) {
	var all []tarn.Buffer
	for range 3 {
		all = append(all, p.Get(10)) // want `leak: the references collected in all are not freed`
	}
}

// take takes ownership of b.
func take(b tarn.Buffer, fail bool) error { // want `leak: take takes ownership of b, as its comment says, but does not free it on the path that returns at line \d+`
	if fail {
		return errShort
	}
	b.Free()
	return nil
}

func growWithoutLuck(p *tarn.Pool) {
	b := p.Get(10) // want `leak: b from p.Get is not freed on the path that returns`
	longer, ok := b.GrowTail(5)
	if !ok {
		return
	}
	longer.Free()
}

// get returns a buffer of the pool.
func get(p *tarn.Pool) tarn.Buffer {
	b := p.Get(10)
	b.Bytes()[0] = 1
	return b
}

func byHelper(p *tarn.Pool) {
	b := get(p) // want `leak: b from get is not freed`
	_ = b.Len()
}

type frame struct {
	head [4]byte
	buf  tarn.Buffer
}

func (f *frame) free() { f.buf.Free(); f.buf = tarn.Buffer{} }

func encode(p *tarn.Pool, n int) (frame, error) {
	if n < 0 {
		return frame{}, errShort
	}
	return frame{buf: p.Get(n)}, nil
}

func inStruct(p *tarn.Pool, fail bool) error {
	f, err := encode(p, 10) // want `leak: f from encode is not freed on the path that returns at line \d+`
	if err != nil {
		return err
	}
	if fail {
		return errShort
	}
	f.free()
	return nil
}

type owner struct {
	name string
	one  tarn.Buffer
	rest tarn.Chain
}

func (o *owner) Free() { // want `leak: Free does not free the field rest, which holds references`
	o.one.Free()
}

func movedOut(o *owner) {
	b := o.one // want `leak: .* is not freed`
	o.one = tarn.Buffer{}
	_ = b.Unique()
}

func onlyInClosure(p *tarn.Pool, run func(func())) {
	run(func() {
		b := p.Get(10) // want `leak: b from p.Get is not freed`
		_ = b.Len()
	})
}

func printed(p *tarn.Pool) int {
	w := tarn.NewWriter(p)
	fmt.Fprintf(w, "%d bytes", 10) // want `leak: w holds what this call put in, and is not freed`
	return w.Len()
}

func printedAndFreed(p *tarn.Pool) int {
	w := tarn.NewWriter(p)
	defer w.Free()
	fmt.Fprintf(w, "%d bytes", 10)
	return w.Len()
}

func printedAndTaken(p *tarn.Pool) tarn.Chain {
	w := tarn.NewWriter(p)
	fmt.Fprintf(w, "%d bytes", 10)
	return w.Take()
}
