package smb

import (
	"context"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// direction is what a transfer moves, and where.
type direction uint8

const (
	reading direction = iota
	writing
	appending      // writing at the end of the file, wherever that is: never sent again after a loss, one request at a time
	copying        // by the server, from another file
	listingEntries // of a directory; n counts one reply, whatever its length
	zeroing        // by the server, of one range, whatever its length: n is 1
)

// kind is the operation that a transfer is.
func (d direction) kind() opKind {
	return [...]opKind{reading: opRead, writing: opWrite, appending: opAppend, copying: opCopy, listingEntries: opList, zeroing: opTruncateFile}[d]
}

// segment is one contiguous part of a transfer, and the request that moves it: start sends the request, and finish waits for it. The same
// bytes may be moved twice, unless they are appended, so a segment whose connection was lost is moved again on the connection that
// replaces it. A segment holds one of four things, which know their requests. They are fields rather than one interface so that a pipeline
// may stay on its caller's stack.
type segment struct {
	dir   direction
	off   int64      // in the file; copying: in the spans
	n     int        // bytes to move
	done  int        // of these, moved
	asked int        // bytes that the request in flight moves
	cl    *conn.Call // the request in flight; nil: none
	on    *tree      // of that request

	content content    // reading, writing and appending
	copy    serverCopy // copying
	listing *listing   // listingEntries: destination of the reply
	zero    zeroRange  // zeroing
}

// start sends a request for the remaining part of s, which is to be at off, or as much of it as one request may move. change is its effect.
func (s *segment) start(ctx context.Context, t *tree, id proto.FileID, off int64, change conn.Effect, policy conn.CreditPolicy) (err error) {
	s.on = t
	left := s.n - s.done
	switch s.dir {
	case writing, appending:
		s.cl, s.asked, err = t.StartWrite(ctx, id, off, s.content.data[s.done:], change, policy)
	case copying:
		s.cl, s.asked, err = s.copy.start(ctx, t, id, off, left, change, policy)
	case listingEntries:
		s.cl, err = s.listing.start(ctx, t, id, policy)
	case zeroing:
		s.cl, err = s.zero.start(ctx, t, id, change, policy)
	default:
		s.cl, s.asked, err = t.StartRead(ctx, id, off, left, s.content.destination(t, s.n, s.done), policy)
	}
	return err
}

// finish waits for the request cl of s and returns how many bytes it moved. It releases cl.
func (s *segment) finish(ctx context.Context, cl *conn.Call) (n int, err error) {
	switch s.dir {
	case writing, appending:
		return cl.Written(ctx, s.asked)
	case copying:
		return s.copy.finish(ctx, cl, s.asked)
	case listingEntries:
		err = s.listing.finish(ctx, cl)
	case zeroing:
		err = s.zero.finish(ctx, cl)
	default:
		return s.content.read(ctx, cl, s.asked)
	}
	if err != nil {
		return 0, err
	}
	return s.n, nil
}

// abandon cancels the request of a segment and frees its memory.
func (s *segment) abandon() {
	if cl := s.cl; cl != nil {
		s.cl = nil
		s.finish(endedContext(), cl) // waits until nothing is received into data any more
	}
	s.content.buf.Free()
	*s = segment{}
}

// endedContext is a context that has ended.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// content is the bytes of a segment that is read or written.
type content struct {
	data []byte      // source or destination; borrowed until the segment is done. nil: a read that has got nothing yet
	buf  tarn.Buffer // owner of data, when the transfer owns it
}

// destination is where a READ is to put the bytes behind the first done of n. A read without a slice gets memory here: a buffer to
// receive into or, when replies are encrypted, none: later it has the buffer in which the reply was decrypted.
func (c *content) destination(t *tree, n, done int) []byte {
	if c.data == nil && !t.Sealed() {
		c.buf = t.m.s.cfg.Pool.Get(n)
		c.data = c.buf.Bytes()
	}
	if c.data == nil {
		return nil
	}
	return c.data[done:]
}

// read waits for the READ cl of n bytes, and returns how many it has got.
func (c *content) read(ctx context.Context, cl *conn.Call, n int) (int, error) {
	if c.data != nil {
		return cl.Read(ctx)
	}
	b, err := cl.ReadBuffer(ctx, n)
	if err == nil {
		c.buf, c.data = b, b.Bytes()
	}
	return b.Len(), err
}

// widen gives a read of n bytes that was answered in part, in the buffer of its reply, memory for all of them.
func (c *content) widen(pool *tarn.Pool, n int) {
	if c.data == nil || len(c.data) == n {
		return
	}
	buf := pool.Get(n)
	copy(buf.Bytes(), c.data)
	c.buf.Free()
	c.buf, c.data = buf, buf.Bytes()
}
