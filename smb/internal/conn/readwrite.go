package conn

import (
	"context"
	"io"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// CreditPolicy says whether to wait for credits.
type CreditPolicy uint8

// Without credits, wait for them or fail with ErrNoCredits.
const (
	WaitForCredits CreditPolicy = iota
	IfAvailable
)

// Lengths of one request in a transfer that needs several.
const (
	fullChunk      = 1 << 20 // a request costs the server and the client the same, whatever its length
	protectedChunk = fullChunk / 2
	clearChunk     = 704 << 10 // of 1 MiB in the clear: halves take 1.05 times as long to read
)

// ReadSize is how many bytes one READ of a transfer of n bytes moves; all its READs but the last have that
// length.
func (t *Tree) ReadSize(n int) int { return t.requestSize(n, t.c.agreed.MaxRead) }

// WriteSize is ReadSize for WRITEs.
func (t *Tree) WriteSize(n int) int { return t.requestSize(n, t.c.agreed.MaxWrite) }

// requestSize is the length of one request of a transfer of n bytes, where one request may move at most
// limit. When nothing else is in flight a call of 1 MiB, or a longer one with something to encrypt or sign, is split: then
// server and client work at the same time. When other calls are in flight both sides are busy anyway, and every request
// costs a thread switch.
func (t *Tree) requestSize(n, limit int) int {
	split, most := clearChunk, fullChunk
	if t.protected() {
		split, most = protectedChunk, n
	}
	if n <= most && min(n, limit) > split && t.c.ring.empty() {
		return split
	}
	return min(limit, fullChunk)
}

// StartRead sends a READ of n bytes at off, or of fewer when the server never grants credits for that many,
// and returns how many. dst is the destination, borrowed until the call is done; nil: the data stays in the
// buffer of the reply (Call.ReadBuffer).
func (t *Tree) StartRead(ctx context.Context, id proto.FileID, off int64, n int, dst []byte, policy CreditPolicy) (*Call, int, error) {
	t.growHeap(ctx, id, n)
	cl := t.Call(proto.CommandRead)
	mid, charge, n, err := t.book(ctx, cl, min(n, t.c.agreed.MaxRead), policy)
	if err != nil {
		return nil, 0, err
	}
	if dst != nil {
		cl.dst = dst[:n]
	}
	cl.Expect = n
	cl.read = proto.ReadRequest{Length: uint32(n), Offset: uint64(off), FileID: id}
	if err := t.c.startWith(ctx, cl, &cl.read, t.protection, mid, charge); err != nil {
		return nil, 0, err
	}
	return cl, n, nil
}

// StartWrite sends a WRITE of data at off, or of as much of it as one request may move, and returns how much.
// data is borrowed until the call is done. effect is that of the call.
func (t *Tree) StartWrite(ctx context.Context, id proto.FileID, off int64, data []byte, effect Effect, policy CreditPolicy) (*Call, int, error) {
	t.growHeap(ctx, id, len(data))
	cl := t.Call(proto.CommandWrite)
	mid, charge, n, err := t.book(ctx, cl, min(len(data), t.c.agreed.MaxWrite), policy)
	if err != nil {
		return nil, 0, err
	}
	cl.Payload, cl.Effect = data[:n], effect
	cl.write = proto.WriteRequest{Length: uint32(n), Offset: uint64(off), FileID: id}
	if err := t.c.startWith(ctx, cl, &cl.write, t.protection, mid, charge); err != nil {
		return nil, 0, err
	}
	return cl, n, nil
}

// book takes the credits to move n bytes with cl, or fewer bytes when the server never grants that many. On
// error cl is released.
func (t *Tree) book(ctx context.Context, cl *Call, n int, policy CreditPolicy) (mid uint64, charge, m int, err error) {
	want := t.c.charged(n)
	if policy == WaitForCredits {
		mid, charge, err = t.c.credits.acquire(ctx, cl, want, 1)
	} else if id, got, ok := t.c.credits.try(want, 1); ok {
		mid, charge = id, got
	} else {
		err = ErrNoCredits
	}
	if err != nil {
		cl.Release()
		return 0, 0, 0, err
	}
	if charge < want {
		n = charge * 65536
	}
	return mid, charge, n, nil
}

// Read waits for a READ and returns how many bytes are in its slice. At the end of the file the error is
// io.EOF. It releases cl.
func (cl *Call) Read(ctx context.Context) (int, error) {
	if err := cl.finishRead(ctx); err != nil {
		return 0, err
	}
	n := cl.placed
	if !cl.direct {
		r, err := proto.DecodeReadResponse(cl.Message())
		if err == nil && len(r.Data) > len(cl.dst) {
			err = ProtocolError("more data than was asked for")
		}
		if err != nil {
			return 0, cl.Malformed(err)
		}
		n = copy(cl.dst, r.Data)
	}
	cl.Release()
	return n, nil
}

// ReadBuffer waits for a READ of n bytes and returns them in the buffer of the reply, which the caller frees.
// At the end of the file the error is io.EOF. It releases cl.
func (cl *Call) ReadBuffer(ctx context.Context, n int) (tarn.Buffer, error) {
	if err := cl.finishRead(ctx); err != nil {
		return tarn.Buffer{}, err
	}
	msg := cl.Message()
	r, err := proto.DecodeReadResponse(msg)
	if err == nil && len(r.Data) > n {
		err = ProtocolError("more data than was asked for")
	}
	if err != nil {
		return tarn.Buffer{}, cl.Malformed(err)
	}
	if len(r.Data) == 0 {
		cl.Release()
		return tarn.Buffer{}, io.EOF
	}
	at := len(msg) - len(r.Data)
	if p, err := proto.DecodeReadPrefix(msg); err == nil {
		at = int(p.Offset)
	}
	buf := cl.buf.Narrow(at, at+len(r.Data))
	cl.buf = tarn.Buffer{}
	cl.Release()
	return buf, nil
}

func (cl *Call) finishRead(ctx context.Context) error {
	if err := cl.finish(ctx); err != nil {
		return err
	}
	if cl.Status == proto.StatusEndOfFile {
		cl.Release()
		return io.EOF
	}
	return cl.checkStatusOrRenew(ctx)
}

// checkStatusOrRenew is checkStatus for a call that its caller sends again when the session has expired.
func (cl *Call) checkStatusOrRenew(ctx context.Context, expected ...proto.Status) error {
	if !cl.expired() {
		return cl.checkStatus(expected)
	}
	err := cl.renew(ctx)
	cl.Release()
	if err == nil {
		err = ErrReauthenticated
	}
	return err
}

// Written waits for a WRITE of n bytes and returns how many of them the server has written. It releases cl.
func (cl *Call) Written(ctx context.Context, n int) (int, error) {
	if err := cl.finish(ctx); err != nil {
		return 0, err
	}
	if err := cl.checkStatusOrRenew(ctx); err != nil {
		return 0, err
	}
	r, err := proto.DecodeWriteResponse(cl.Message())
	if err == nil && int64(r.Count) > int64(n) {
		err = ProtocolError("it wrote more than it was sent")
	}
	if err != nil {
		return 0, cl.Malformed(err)
	}
	cl.Release()
	return int(r.Count), nil
}
