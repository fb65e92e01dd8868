package h2http

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// bodyOwner is the exchange or call that a body belongs to. Its methods are called by
// the goroutine that reads, without the body's lock.
type bodyOwner interface {
	// beforeRead is called before the first read.
	beforeRead()
	// bodyClosed is called once, when the reader has closed the body.
	bodyClosed()
	// memory is where what is copied together of the content lies. It may be called by any goroutine.
	memory() *tarn.Pool
}

// body is the received content of one stream: a request's on a server, a response's
// on a client. OnData fills it and one reader empties it. It implements io.ReadCloser
// and io.WriterTo. Close and fail may be called by any goroutine.
type body struct {
	owner bodyOwner

	mu     sync.Mutex
	ready  *sync.Cond   // data, end or a failure; nil: no reader has waited yet
	stream *h2.Stream   // window is given back on it; nil: not any more
	data   *tarn.Chain  // received and not read, from spareChains; nil: nothing
	err    error        // what follows data: io.EOF or a failure; nil: more may come
	onEOF  func()       // called before io.EOF is first returned; nil: nothing
	left   int64        // what content-length has yet to bring; -1: not declared, or not checked here
	state  bodyProgress // of the reader
}

type bodyProgress uint8

const (
	bodyUnread bodyProgress = iota // nothing has been asked for
	bodyReading
	bodyClosed // by the reader
)

// bind makes b ready for s. b must not be copied afterwards.
func (b *body) bind(owner bodyOwner, s *h2.Stream) {
	b.owner, b.stream, b.left = owner, s, -1
}

// changed wakes the reader if it waits, and unlocks b.mu.
func (b *body) changed() {
	ready := b.ready
	b.mu.Unlock()
	if ready != nil {
		ready.Broadcast()
	}
}

// put appends a received piece, which it takes ownership of.
func (b *body) put(buf tarn.Buffer, e h2.Ending) {
	b.mu.Lock()
	if b.state == bodyClosed || b.stream == nil || b.err != nil {
		b.unread(buf.Len())
		b.mu.Unlock()
		buf.Free()
		return
	}
	n := int64(buf.Len())
	if b.left >= 0 {
		if n > b.left {
			b.unread(buf.Len())
			b.mu.Unlock()
			buf.Free()
			b.end(errLongContent)
			return
		}
		b.left -= n
	}
	if n > 0 {
		b.add(buf)
	} else {
		buf.Free()
	}
	if e == h2.End {
		b.ended(io.EOF)
	}
	b.changed()
}

// add appends buf, which it takes ownership of and which is not empty. b.mu is held.
func (b *body) add(buf tarn.Buffer) {
	if b.data == nil {
		b.data = spareChains.Get().(*tarn.Chain)
		b.data.SetPool(b.owner.memory())
	}
	b.data.Append(buf)
}

// errLongContent is returned for reading a response that is longer than its
// content-length.
var errLongContent = errors.New("h2http: content longer than the peer's content-length")

// expect has the content checked against its declared length.
func (b *body) expect(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = n
}

// end says that nothing more comes. err is io.EOF or why it ended; the first call
// counts. What was received before can still be read.
func (b *body) end(err error) {
	b.mu.Lock()
	b.ended(err)
	b.changed()
}

// ended is end. b.mu is held.
func (b *body) ended(err error) {
	if b.err == nil {
		if b.err = err; err == io.EOF && b.left > 0 {
			b.err = io.ErrUnexpectedEOF
		}
	}
}

// detach ends b's use of its stream and frees what is unread; reading fails with err
// from now on. It must be called before the stream is released.
func (b *body) detach(err error) {
	b.mu.Lock()
	b.detachLocked(err)
	b.changed()
}

// detachEnded is detach if nothing more comes, which it reports.
func (b *body) detachEnded(err error) bool {
	b.mu.Lock()
	if b.err == nil {
		b.mu.Unlock()
		return false
	}
	b.detachLocked(err)
	b.changed()
	return true
}

// detachLocked is detach. b.mu is held.
func (b *body) detachLocked(err error) {
	b.stream = nil
	b.freeData()
	if b.err == nil || b.err == io.EOF {
		b.err = err
	}
}

// begin is called by each method that reads.
func (b *body) begin() {
	b.mu.Lock()
	first := b.state == bodyUnread
	if first {
		b.state = bodyReading
	}
	b.mu.Unlock()
	if first {
		b.owner.beforeRead()
	}
}

// wait waits for data and returns nil with b.mu held, or why there is none with b.mu
// free.
func (b *body) wait() error {
	b.mu.Lock()
	for b.data == nil && b.err == nil && b.state != bodyClosed {
		if b.ready == nil {
			b.ready = sync.NewCond(&b.mu)
		}
		b.ready.Wait()
	}
	if b.state == bodyClosed {
		b.mu.Unlock()
		return http.ErrBodyReadAfterClose
	}
	if b.data != nil {
		return nil
	}
	err, onEOF := b.err, b.onEOF
	if err == io.EOF {
		b.onEOF = nil
	}
	b.mu.Unlock()
	if err == io.EOF && onEOF != nil {
		onEOF()
	}
	return err
}

// taken gives the window of n bytes back. b.mu is held.
func (b *body) taken(n int) {
	if b.stream != nil {
		b.stream.Consumed(n)
	}
}

// Read reads what has been received, and waits if nothing has.
func (b *body) Read(p []byte) (int, error) {
	b.begin()
	if err := b.wait(); err != nil {
		return 0, err
	}
	defer b.mu.Unlock()
	n, _ := b.data.Read(p) // there is data
	if b.data.Len() == 0 {
		b.freeData()
	}
	b.taken(n)
	return n, nil
}

// next waits for data and moves all that has been received to dst.
func (b *body) next(dst *tarn.Chain) error {
	b.begin()
	if err := b.wait(); err != nil {
		return err
	}
	defer b.mu.Unlock()
	n := b.data.Len()
	dst.AppendChain(b.data)
	b.freeData()
	b.taken(n)
	return nil
}

// WriteTo writes everything to w. If w is a ResponseWriter of this package, no byte is
// copied.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	if sink, ok := w.(chainWriter); ok {
		return b.writeChains(sink)
	}
	var c tarn.Chain // not for writeChains, too, for which it would be allocated
	defer c.Free()
	var written int64
	for {
		if err := b.next(&c); err != nil {
			return written, ignoreEOF(err)
		}
		n, err := c.WriteTo(w)
		written += n
		if err != nil {
			return written, err
		}
	}
}

func (b *body) writeChains(w chainWriter) (int64, error) {
	var c tarn.Chain
	var written int64
	for {
		if err := b.next(&c); err != nil {
			return written, ignoreEOF(err)
		}
		written += int64(c.Len())
		if err := w.writeChain(&c); err != nil {
			return written, err
		}
	}
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// Close ends reading. What comes afterwards is dropped.
func (b *body) Close() error {
	b.mu.Lock()
	if b.state == bodyClosed {
		b.mu.Unlock()
		return nil
	}
	b.discard()
	b.changed()
	b.owner.bodyClosed()
	return nil
}

// discard frees what has been received and what will be received. b.mu is held.
func (b *body) discard() {
	b.state = bodyClosed
	if b.data != nil {
		b.unread(b.data.Len())
	}
	b.freeData()
}

// unread gives the connection's window of n bytes back that are not going to be read. The stream's stays shut, so that the peer does not go on. b.mu is held.
func (b *body) unread(n int) {
	if b.stream != nil && n > 0 {
		b.stream.Taken(n)
	}
}

// spareChains holds empty chains. A body has one while content waits to be read, which is a short time of its life.
var spareChains = sync.Pool{New: func() any { return new(tarn.Chain) }}

// freeData frees what has been received and not read. b.mu is held.
func (b *body) freeData() {
	if b.data != nil {
		b.data.Free()
		b.data.SetPool(nil)
		spareChains.Put(b.data)
		b.data = nil
	}
}

// unwanted is Close for a body that no reader has: the owner's bodyClosed is not called.
func (b *body) unwanted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.discard()
}

// chainWriter is a writer that takes references.
type chainWriter interface {
	// writeChain writes all of c and leaves it empty, on errors too.
	writeChain(c *tarn.Chain) error
}

// unbind ends b's use of its stream, which is about to be released; what was received
// can still be read.
func (b *body) unbind() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream = nil
}
