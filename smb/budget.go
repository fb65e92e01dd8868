package smb

import (
	"context"
	"errors"
	"time"

	"github.com/tarn-go/tarn/smb/internal/conn"
)

// maxLosses is how many connections an operation may lose without progress between them. Opening its file again on each new connection is
// a part of the operation.
const maxLosses = 5

// Pauses between attempts to replace the lost connection of a session.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// budget is what one operation has used up of its attempts and of its time: it may lose maxLosses connections, and be without a connection
// for Limits.RedialTimeout, both counted from its last progress. The zero budget is that of an operation that begins.
type budget struct {
	losses  int
	last    *tree         // the last one that was lost: requests that were in flight on it together count once
	since   time.Time     // when the operation came to be without a connection; zero: it has one
	without time.Duration // how long it was without a connection before
}

// connected records that the operation has a connection.
func (b *budget) connected() {
	if !b.since.IsZero() {
		b.without += time.Since(b.since)
		b.since = time.Time{}
	}
}

// progress records that the server has done a part of the operation that is not done again.
func (b *budget) progress() {
	b.losses, b.without = 0, 0 // a whole new value would be one more allocation of each transfer
}

// countLoss counts a connection that was lost, and reports whether the operation may go on with another. t may be nil.
func (b *budget) countLoss(t *tree) bool {
	if t == nil || t != b.last || t.Alive() {
		b.losses++
		b.last = t
	}
	if b.since.IsZero() {
		b.since = time.Now()
	}
	return b.losses < maxLosses
}

// retry counts the failure err of an attempt on t, and reports whether the operation may make another one. It pauses before, if the server
// could not be reached. t is nil if there was no connection.
func (b *budget) retry(ctx context.Context, s *Session, t *tree, err error) bool {
	if ctx.Err() != nil || !s.repeatable(err) {
		return false
	}
	var unreached *redialError
	if errors.As(err, &unreached) {
		return b.pause(ctx, s, unreached)
	}
	if errors.Is(err, conn.ErrReauthenticated) {
		t = nil // the connection is the same, and each such refusal counts
	}
	return b.countLoss(t)
}

// pause waits until the session may be dialled again, if that is within the budget. If ctx or the session ends meanwhile, the next attempt
// finds out.
func (b *budget) pause(ctx context.Context, s *Session, failed *redialError) bool {
	if b.since.IsZero() {
		b.since = failed.begun
	}
	pause := max(0, time.Until(failed.next))
	if b.without+time.Since(b.since)+pause > s.cfg.Limits.RedialTimeout {
		return false
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	case <-s.done:
	}
	return true
}

// redialError is the error of an attempt to replace a lost connection that failed. Callers that waited for the attempt share it.
type redialError struct {
	err         error
	begun, next time.Time     // when the attempt was begun, and before when there is no other; next may be zero
	pause       time.Duration // between the end of the attempt and next
}

func (e *redialError) Error() string { return e.err.Error() }
func (e *redialError) Unwrap() error { return e.err }
