package smb

import (
	"context"

	"github.com/tarn-go/tarn/smb/internal/conn"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// LockMode says which other locks may be held on the same bytes.
type LockMode uint8

// Modes of a lock.
const (
	LockShared    LockMode = iota + 1 // other files may read the bytes and hold shared locks
	LockExclusive                     // no other file may read or write the bytes
)

// Lock locks n bytes from off. It waits until conflicting locks are released; the file's context ends the
// wait. The lock belongs to the open file: it ends with Unlock or Close, and is lost with the handle. A range
// may lie beyond the end of the file.
func (f *File) Lock(off, n int64, mode LockMode) error {
	return f.lock(f.ctx, opLock, off, n, lockFlags(mode))
}

// TryLock is Lock, but fails with ErrLocked instead of waiting.
func (f *File) TryLock(off, n int64, mode LockMode) error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.lock(ctx, opLock, off, n, lockFlags(mode)|proto.LockFailImmediately)
}

// Unlock unlocks a range, which must be one that was locked.
func (f *File) Unlock(off, n int64) error {
	ctx, cancel := f.h.m.s.bounded(f.ctx)
	defer cancel()
	return f.lock(ctx, opUnlock, off, n, proto.LockUnlock)
}

func lockFlags(mode LockMode) proto.LockFlags {
	if mode == LockShared {
		return proto.LockShared
	}
	return proto.LockExclusive
}

func (f *File) lock(ctx context.Context, kind opKind, off, n int64, flags proto.LockFlags) error {
	op := "lock"
	if kind == opUnlock {
		op = "unlock"
	}
	if off < 0 || n < 0 {
		return f.wrap(op, errNegative)
	}
	err := f.h.run(ctx, kind, func(t *tree, id proto.FileID) error {
		cl := t.Call(proto.CommandLock)
		if kind.rule().undone == undoLocking {
			cl.Undo = func(*conn.Call) {
				t.lock(context.Background(), t.Call(proto.CommandLock), id, uint64(off), uint64(n), proto.LockUnlock)
			}
		}
		return t.lock(ctx, cl, id, uint64(off), uint64(n), flags)
	})
	return f.wrap(op, err)
}

func (t *tree) lock(ctx context.Context, cl *conn.Call, id proto.FileID, off, n uint64, flags proto.LockFlags) error {
	req := proto.LockRequest{FileID: id, Locks: []proto.LockElement{{Offset: off, Length: n, Flags: flags}}}
	if err := t.RoundTrip(ctx, cl, &req); err != nil {
		return err
	}
	cl.Release()
	return nil
}
