package h2

import (
	"fmt"

	"github.com/tarn-go/tarn"
)

// Source makes DATA at the time when it is sent, for content that need not be in a buffer before, such as that of a file in the
// system's cache: it is sent while it is in the processor's cache, and no other goroutine is woken for each piece.
type Source interface {
	// Supply returns the next bytes, from one to n of them, to be freed by the caller; an empty Buffer ends the Write. It is
	// called by the goroutine that sends, any caller's or the connection's own, by one at a time and without a lock of this package. That
	// goroutine may hold a lock of its own while it calls the connection or a stream, so Supply must not take such a lock. Nothing
	// else is sent on the connection meanwhile, so it must not wait; it may not call the stream or the connection. If it panics, or
	// supplies more than n bytes, the Write panics, on its own goroutine; the stream is then still open, and Reset is in order.
	Supply(n int) tarn.Buffer
}

// demand is what a Source is asked for: at most n bytes of DATA of a Write. Without a Write no Source is asked.
type demand struct {
	w    *waiting
	n    int
	room int // bytes that the batch takes yet
}

// begin notes that the Source is being asked. Conn.mu is held.
func (d demand) begin() { d.w.asked = true }

// ask asks the Source for bytes, to be freed by the caller; the error is a *sourcePanic. Conn.mu is not held.
func (d demand) ask() (_ tarn.Buffer, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &sourcePanic{v}
		}
	}()
	b := d.w.out.Source.Supply(d.n)
	if b.Len() > d.n {
		b.Free()
		return tarn.Buffer{}, &sourcePanic{errSupplied}
	}
	return b, nil
}

// supplied takes ownership of b, which the Source has supplied, and gives it to the Write, which may have ended meanwhile. c.mu is held.
func (c *Conn) supplied(d demand, b tarn.Buffer, err error) {
	w := d.w
	w.asked = false
	w.out.SourceLen -= int64(b.Len()) // also if it is not sent: the Source does not have it any more
	switch {
	case !w.active:
		b.Free()
		if err == nil {
			err = w.ended
		}
		w.done <- err
		w.ended = nil
	case b.Len() == 0:
		b.Free()
		c.endWait(w, err)
	default:
		w.out.Data = b
	}
}

// sourcePanic is what a Source has panicked with. It takes the place of the error of its Write, and Write panics with it: the goroutine that asks
// the Source may be the connection's own, which ends the process, or another caller's, who may recover and go on.
type sourcePanic struct{ value any }

func (p *sourcePanic) Error() string { return fmt.Sprintf("h2: a Source has panicked: %v", p.value) }

// errSupplied is what a Write panics with whose Source breaks its contract.
const errSupplied = "h2: a Source has supplied more than it was asked for"
