package rpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// attempt is one try of a call: what its stream has brought so far. The reading
// goroutine fills it, the caller waits on it.
type attempt struct {
	conn  *clientConn
	habit *message.Habit // of the method's replies
	st    *h2.Stream     // nil until opened, and again when released; the caller's

	maxRecv int
	unary   bool // the caller waits for the end, not for each message

	mu        sync.Mutex
	in        message.Assembler
	ungranted int
	waiting   bool
	ready     chan struct{} // holds one; kept with a pooled attempt
	header    *responseShape
	more      []h2.Field // the header's own fields
	trailer   *responseShape
	moreTrail []h2.Field
	ended     bool
	status    *status.Status // set with ended; nil: OK
	err       error          // what reset the stream
	seen      sight
	abandoned bool // the caller has gone: whatever comes is freed
	filling   bool // the reading goroutine writes to memory of in

	fields []h2.Field // space for the request's fields
}

// attempts recycles the attempts of unary calls. Only those whose stream ended
// on both sides are put back: no callback can know them any more.
type attempts struct{ pool sync.Pool }

func (p *attempts) get() *attempt {
	if a, ok := p.pool.Get().(*attempt); ok {
		return a
	}
	return &attempt{ready: make(chan struct{}, 1)}
}

func (p *attempts) put(a *attempt) {
	// The reading goroutine may not have left end yet.
	a.mu.Lock()
	a.in.Free()
	a.mu.Unlock()
	fields := a.fields
	if cap(fields) > maxKeptFields {
		fields = nil
	}
	clear(fields[:cap(fields)])
	ready := a.ready
	*a = attempt{ready: ready, fields: fields[:0]}
	p.pool.Put(a)
}

const maxKeptFields = 64

// gotHeaders takes the response's header or trailer.
func (a *attempt) gotHeaders(h *h2.Header, e h2.Ending) {
	sh := responseShapeOf(h)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.abandoned || a.ended {
		return
	}
	switch {
	case h.Status == 0: // trailers
		a.trailer, a.moreTrail = sh, append([]h2.Field(nil), h.More...)
		a.end(sh.status(h.More, endTrailers))
	case e == h2.End: // a response of nothing else
		a.trailer, a.moreTrail = sh, append([]h2.Field(nil), h.More...)
		a.end(sh.status(h.More, onlyTrailers))
	default:
		a.header, a.more = sh, append([]h2.Field(nil), h.More...)
		if st := sh.unfit(); st != nil {
			a.end(st)
			return
		}
		a.wake()
	}
}

// end notes the status. a.mu is held.
func (a *attempt) end(st *status.Status) {
	a.ended = true
	a.status = st
	if a.waiting {
		a.waiting = false
		a.ready <- struct{}{}
	}
}

// wake tells a streaming caller to look. a.mu is held.
func (a *attempt) wake() {
	if a.waiting && !a.unary {
		a.waiting = false
		a.ready <- struct{}{}
	}
}

// gotData takes ownership of b, a piece of the response.
func (a *attempt) gotData(b tarn.Buffer, e h2.Ending) {
	n := b.Len()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.abandoned || a.ended {
		b.Free()
		return
	}
	if a.header == nil {
		b.Free()
		a.end(status.New(codes.Internal, "rpc: the server sent data before a header"))
		return
	}
	a.in.Append(b)
	a.arrived(n, e)
}

// arrived reacts to n more bytes in a.in. a.mu is held.
func (a *attempt) arrived(n int, e h2.Ending) {
	a.ungranted += n
	if e == h2.End {
		a.end(status.New(codes.Internal, "server closed the stream without sending trailers"))
		return
	}
	missing, size, ok := a.in.Missing()
	if ok && missing > 0 && size <= a.maxRecv && (a.waiting || a.unary) {
		// A message somebody waits for: it must be able to come in whole.
		a.grant()
		return
	}
	if a.unary && ok && size > a.maxRecv {
		a.end(tooLarge(size, a.maxRecv))
		return
	}
	if missing == 0 || size > a.maxRecv { // a message, or one to be refused
		a.wake()
	}
}

// opened notes the stream, and gives back what came before that was known.
func (a *attempt) opened(st *h2.Stream) {
	a.mu.Lock()
	a.st = st
	if a.unary && !a.ended {
		a.grant()
	}
	a.mu.Unlock()
}

// grant gives back the window of all that has come. a.mu is held and the
// attempt not abandoned, so the stream is not released.
func (a *attempt) grant() {
	if a.ungranted > 0 && a.st != nil {
		a.st.Consumed(a.ungranted)
		a.ungranted = 0
	}
}

func tooLarge(size, limit int) *status.Status {
	return status.Newf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size, limit)
}

// gotReset ends the attempt before its time.
func (a *attempt) gotReset(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.abandoned || a.ended {
		return
	}
	a.err = err
	st, seen := resetStatus(err)
	if a.header == nil {
		a.seen = seen
	}
	a.end(st)
}

// waitEnd waits for the end of a unary call's attempt, or for ctx.
func (a *attempt) waitEnd(ctx context.Context) error {
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		return nil
	}
	a.waiting = true
	a.mu.Unlock()
	done := ctx.Done()
	if done == nil {
		<-a.ready
		return nil
	}
	select {
	case <-a.ready:
		return nil
	case <-done:
		return ctx.Err()
	}
}

// abandon makes whatever still comes be freed.
func (a *attempt) abandon() {
	a.mu.Lock()
	a.abandoned = true
	if !a.filling {
		a.in.Free()
	}
	if a.waiting {
		a.waiting = false
		a.ready <- struct{}{}
	}
	a.mu.Unlock()
}

// land implements lander.
func (a *attempt) land() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.abandoned || a.ended || a.header == nil {
		return nil
	}
	b := a.in.Land(a.conn.cc.opts.pool, a.maxRecv, &a.conn.credit, a.habit)
	a.filling = len(b) > 0
	return b
}

// landed implements lander.
func (a *attempt) landed(n int, e h2.Ending) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.filling = false
	if a.abandoned {
		a.in.Free()
		return
	}
	a.in.Landed(n)
	if !a.ended {
		a.arrived(n, e)
	}
}

// unlanded implements lander.
func (a *attempt) unlanded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.filling = false
	if a.abandoned {
		a.in.Free()
	}
}

// close abandons the attempt and releases its stream, which resets it if it is
// still open. The caller calls it once.
func (a *attempt) close() {
	a.abandon()
	if st := a.st; st != nil {
		st.Release()
	}
}

// next waits for the next message of a stream. io.EOF says that the attempt has
// ended; its status then tells how. Context errors reach it as a reset by
// the caller's own cancellation, see clientStream.
func (a *attempt) next() received {
	a.mu.Lock()
	for {
		m, kind, size, ok, err := a.in.Next(a.maxRecv)
		if ok || err != nil {
			grant := min(a.ungranted, message.PrefixLen+size)
			if ok && grant > 0 && a.st != nil && !a.abandoned {
				a.ungranted -= grant
				a.st.Consumed(grant)
			}
			a.mu.Unlock()
			return received{m, kind, size, err}
		}
		if a.ended || a.abandoned {
			if a.in.Len() > 0 && a.status == nil {
				err = message.ErrTruncated
			} else {
				err = io.EOF
			}
			a.mu.Unlock()
			return received{err: err}
		}
		a.grant()
		a.waiting = true
		a.mu.Unlock()
		<-a.ready
		a.mu.Lock()
	}
}

// waitHeader waits until the header or the end has come.
func (a *attempt) waitHeader() {
	a.mu.Lock()
	for a.header == nil && !a.ended && !a.abandoned {
		a.waiting = true
		a.mu.Unlock()
		<-a.ready
		a.mu.Lock()
	}
	a.mu.Unlock()
}

// compressor finds what the response is compressed with.
func (a *attempt) compressor() (encoding.Compressor, error) {
	if a.header == nil || a.header.encoding == "" {
		return nil, nil
	}
	if c := encoding.GetCompressor(a.header.encoding); c != nil {
		return c, nil
	}
	return nil, status.Errorf(codes.Internal, "grpc: Decompressor is not installed for grpc-encoding %q", a.header.encoding)
}

// resetStatus maps the end of a stream to a status (PROTOCOL-HTTP2.md,
// "Errors") and says how much of the call the server has seen.
func resetStatus(err error) (*status.Status, sight) {
	var se *h2.StreamError
	var away *h2.GoAwayError
	switch {
	case errors.As(err, &se):
		return streamErrorStatus(se)
	case errors.As(err, &away):
		return status.New(codes.Unavailable, "the server is going away: "+err.Error()), notProcessed
	case errors.Is(err, h2.ErrClosed):
		return status.Convert(ErrClientConnClosing), maybeSeen
	}
	return status.New(codes.Unavailable, "error reading from server: "+err.Error()), maybeSeen
}
