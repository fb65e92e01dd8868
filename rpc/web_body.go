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
	refs  refsSource // the content as references, when package h2http received it; nil: not available
	pool  *tarn.Pool
	limit int          // of a message, in bytes
	kind  message.Kind // Compressed if the header names a compression; not set for requests of gRPC and gRPC-Web
	plain bool         // the body is one message without a prefix
	in    message.Assembler
	part  *tarn.Chain // what refs appends to, from spareParts; nil between reads
	end   error
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

// empty reports whether the body has no content. It waits for the first bytes.
func (b *webBody) empty() bool {
	for b.in.Len() == 0 && b.end == nil {
		b.read()
	}
	return b.in.Len() == 0 && errors.Is(b.end, io.EOF)
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
	b.part = spareParts.Get().(*tarn.Chain)
	err := b.refs.AppendBody(b.part)
	for b.part.Len() > 0 {
		b.in.Append(b.part.NextSegment())
	}
	b.freePart()
	if errors.Is(err, h2http.ErrNotOurs) {
		b.refs = nil
		return false
	}
	b.end = webEnd(err)
	return true
}

// spareParts holds empty chains. One is in use for as long as a read takes, and a call has more than one read only if its
// messages come in parts, so a chain in each body would be memory for little use.
var spareParts = sync.Pool{New: func() any { return new(tarn.Chain) }}

// freePart frees the data of a read, if there is any.
func (b *webBody) freePart() {
	if b.part != nil {
		b.part.Free()
		spareParts.Put(b.part)
		b.part = nil
	}
}

// refsSource appends the next content to a chain as references, which become the caller's.
type refsSource interface {
	AppendBody(*tarn.Chain) error
}

// refsOf returns the source of the content of r, which is answered by w.
func refsOf(w http.ResponseWriter, r *http.Request) refsSource {
	if s, ok := w.(refsSource); ok {
		return s
	}
	return (*requestRefs)(r)
}

// requestRefs is a request as a refsSource, which takes no allocation.
type requestRefs http.Request

func (r *requestRefs) AppendBody(c *tarn.Chain) error { return h2http.BodyChain((*http.Request)(r), c) }

// webEnd converts an error of the body's Read to the body's end.
func webEnd(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	var large *http.MaxBytesError // allocated: it escapes
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
	if b.refs != nil {
		if r, ok := b.wholeByReference(); ok {
			return r
		}
	}
	buf := b.pool.Get(webRead)
	n, err := readFull(b.r, buf.Bytes())
	switch {
	case err == nil:
		return b.wholeFrom(buf)
	case n == 0:
		buf.Free()
		return b.ended(message.Message{}, err)
	}
	return b.ended(message.Message{Buf: buf.Narrow(0, n)}, err)
}

// wholeFrom returns a body that begins with first, of which it takes ownership.
func (b *webBody) wholeFrom(first tarn.Buffer) received {
	c := new(tarn.Chain)
	c.Append(first)
	for size := 2 * webRead; c.Len() <= b.limit; size = min(2*size, 1<<20) {
		buf := b.pool.Get(size)
		n, err := readFull(b.r, buf.Bytes())
		if n > 0 {
			c.Append(buf.Narrow(0, n))
		} else {
			buf.Free()
		}
		if err != nil {
			return b.ended(message.Message{Chain: c}, err)
		}
	}
	return b.ended(message.Message{Chain: c}, nil)
}

// wholeByReference takes what package h2http received without copying it; false: the body is not h2http's, and
// nothing has been read.
func (b *webBody) wholeByReference() (r received, ok bool) {
	b.part = spareParts.Get().(*tarn.Chain)
	var err error
	for err == nil && b.part.Len() <= b.limit {
		err = b.refs.AppendBody(b.part)
	}
	if errors.Is(err, h2http.ErrNotOurs) {
		b.freePart()
		b.refs = nil
		return received{}, false
	}
	var m message.Message
	if b.part.Segments() > 1 {
		m.Chain = new(tarn.Chain)
		m.Chain.AppendChain(b.part)
	} else {
		m.Buf = b.part.NextSegment()
	}
	b.freePart()
	return b.ended(m, err), true
}

// readFull reads until p is full or r ends. Unlike io.ReadFull it returns r's error: net/http ends a body that was cut
// off with io.ErrUnexpectedEOF, and one that is complete with io.EOF.
func readFull(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	return n, err
}

// ended ends a body of which m has been read, and returns m if it is all of it: err is io.EOF. It takes ownership
// of m.
func (b *webBody) ended(m message.Message, err error) received {
	size := m.Len()
	switch {
	case size > b.limit:
		m.Free()
		b.end = message.ErrTooLarge
		return received{size: size, err: b.end}
	case errors.Is(err, io.EOF):
		b.end = io.EOF
		kind := b.kind
		if size == 0 { // never compressed, whatever the header says (https://connectrpc.com/docs/protocol)
			kind = message.Plain
		}
		return received{msg: m, kind: kind, size: size}
	}
	m.Free()
	b.end = webEnd(err)
	return received{err: b.end}
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

// free frees the data that was read and not taken.
func (b *webBody) free() {
	b.in.Free()
	b.freePart() // there is one if AppendBody panicked
	if b.end == nil {
		b.end = errOver
	}
}
