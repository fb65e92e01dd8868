package rpc

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc/internal/message"
)

// webRead is how many bytes of a request body with short messages are read at once.
const webRead = 16 << 10

// webBody reads the messages of a request's or a response's body: each with a prefix, or, for Connect's unary
// calls, one without. On a server it is used under webCall.recvMu, or before the handler runs.
type webBody struct {
	r     io.Reader
	refs  func(*tarn.Chain) error // returns the content as references, when package h2http received it; nil: not available
	pool  *tarn.Pool
	limit int // of a message, in bytes
	kind  message.Kind
	plain bool // the body is one message without a prefix
	in    message.Assembler
	end   error
	lease *message.Lease // of lent requests; nil: requests are copied
}

// next returns the next message, to be freed by the caller; io.EOF at the end of the body.
func (b *webBody) next() received {
	if b.plain {
		return b.whole()
	}
	for {
		m, kind, size, ok, err := b.in.Next(b.limit)
		switch {
		case ok:
			return received{m, kind, size, nil}
		case err != nil:
			return received{size: size, err: err}
		case b.end != nil && b.in.Len() > 0 && errors.Is(b.end, io.EOF):
			return received{err: message.ErrTruncated}
		case b.end != nil:
			return received{err: b.end}
		}
		b.read()
	}
}

// read reads the next bytes of the body: directly into a large message's memory, or into a buffer whose parts
// become messages without a copy.
func (b *webBody) read() {
	if b.refs != nil && b.chain() {
		return
	}
	if space := b.in.Land(b.pool, b.limit, nil, nil); len(space) > 0 {
		n, err := b.r.Read(space)
		b.in.Landed(n)
		b.end = webEnd(err)
		return
	}
	buf := b.pool.Get(webRead)
	n, err := b.r.Read(buf.Bytes())
	if n > 0 {
		b.in.Append(buf.Narrow(0, n))
	} else {
		buf.Free()
	}
	b.end = webEnd(err)
}

// chain takes the received data as the references of package h2http; false for a body of another package.
func (b *webBody) chain() bool {
	var c tarn.Chain
	err := b.refs(&c)
	if errors.Is(err, h2http.ErrNotOurs) {
		b.refs = nil
		return false
	}
	for c.Len() > 0 {
		b.in.Append(c.NextSegment())
	}
	c.Free()
	b.end = webEnd(err)
	return true
}

// requestRefs returns a request's content as references.
func requestRefs(r *http.Request) func(*tarn.Chain) error {
	return func(c *tarn.Chain) error { return h2http.BodyChain(r, c) }
}

// webEnd converts an error of the body's Read to the body's end.
func webEnd(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return message.ErrTooLarge
	}
	return err
}

// whole returns a body that is one message, once. Memory depends on what arrives, not on the declared length.
func (b *webBody) whole() received {
	if b.end != nil {
		return received{err: b.end}
	}
	var c tarn.Chain
	for size := webRead; ; size = min(2*size, 1<<20) {
		buf := b.pool.Get(size)
		n, err := io.ReadFull(b.r, buf.Bytes())
		if n > 0 {
			c.Append(buf.Narrow(0, n))
		} else {
			buf.Free()
		}
		switch {
		case c.Len() > b.limit:
			n := c.Len()
			c.Free()
			b.end = message.ErrTooLarge
			return received{size: n, err: b.end}
		case err == nil:
			continue
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			b.end = io.EOF
			return received{msg: message.Message{Chain: &c}, kind: b.kind, size: c.Len()}
		}
		c.Free()
		b.end = webEnd(err)
		return received{err: b.end}
	}
}

// only returns the single message of the body, to be freed by the caller.
func (b *webBody) only() received {
	first := b.next()
	if errors.Is(first.err, io.EOF) {
		return received{err: errNoMessage}
	}
	if first.err != nil {
		return first
	}
	switch second := b.next(); {
	case errors.Is(second.err, io.EOF):
		return first
	case second.err == nil:
		second.msg.Free()
		first.msg.Free()
		return received{err: errTwoMessages}
	default:
		first.msg.Free()
		return second
	}
}

// close frees the data that was read and not taken. If a goroutine that the handler left running is still
// reading, the data is freed when its read ends, at the latest when net/http closes the body.
func (b *webBody) close(mu *sync.Mutex) {
	if !mu.TryLock() {
		go func() {
			mu.Lock()
			defer mu.Unlock()
			b.free()
		}()
		return
	}
	defer mu.Unlock()
	b.free()
}

func (b *webBody) free() {
	b.in.Free()
	if b.lease != nil {
		b.lease.Release()
	}
	if b.end == nil {
		b.end = errOver
	}
}
