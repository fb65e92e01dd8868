package rclone

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/smb"
)

// connections are the sessions of a remote with its server, made when they are needed. A session is used by many operations at a
// time. Another is made while all are in use, up to the limit, and all are closed when none was in use for the idle time. It is
// safe for concurrent use.
type connections struct {
	dialer *smb.Dialer
	addr   string
	idle   time.Duration // 0: never closed

	mu    sync.Mutex
	slots []*slot
	uses  int // operations that hold a slot
	timer *time.Timer

	// closing ends with close, and with it what is under way to make a session. Then there is another.
	closing context.Context
	end     context.CancelFunc
}

// slot has one session, or none.
type slot struct {
	uses int         // operations that hold it; guarded by connections.mu
	live atomic.Bool // it has a session; changed with busy

	busy    chan struct{} // holds a value while the session is made, mounted or closed; guards what follows
	session *smb.Session
	shares  map[string]*smb.Share
}

func newConnections(d *smb.Dialer, addr string, limit int, idle time.Duration) *connections {
	c := &connections{dialer: d, addr: addr, idle: idle}
	c.closing, c.end = context.WithCancel(context.Background())
	for range max(limit, 1) {
		c.slots = append(c.slots, &slot{busy: make(chan struct{}, 1)})
	}
	return c
}

// lease is the use of a session by one operation, until release.
type lease struct {
	from    *connections
	slot    *slot
	closing context.Context // of connections when the lease began
	*smb.Session
	share *smb.Share // with the operation's context; nil where no share was asked for
	waits bool       // see wait
	ended sync.Once
}

// get returns a lease of a session with a mount of the named share; "" for none. The caller releases it with the operation's error.
//
// Where another session cannot be made, one that exists is used: it waits for a server that is started again, and the server may refuse
// more connections. Where there is none, a server that cannot be reached is dialled again for smb.DefaultRedialTimeout, as one is whose
// connection was lost: it may be starting.
func (c *connections) get(ctx context.Context, share string) (*lease, error) {
	l := c.take()
	err := l.prepare(ctx, share)
	begun := time.Now()
	for pause := firstPause; err != nil && l.Session == nil && ctx.Err() == nil; pause = min(2*pause, longestPause) {
		if !l.moveToLive() {
			if !errors.Is(err, smb.ErrConnLost) || time.Since(begun)+pause > smb.DefaultRedialTimeout || !c.pause(ctx, pause) {
				break
			}
		}
		err = l.prepare(ctx, share)
	}
	if err != nil {
		l.release(err)
		return nil, err
	}
	return l, nil
}

// Pauses between attempts to make the first session.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// pause waits for d; false if ctx ends or the connections are closed meanwhile.
func (c *connections) pause(ctx context.Context, d time.Duration) bool {
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-closing.Done():
	}
	return false
}

// moveToLive moves the lease to the least used slot with a session; false if there is none.
func (l *lease) moveToLive() bool {
	c := l.from
	c.mu.Lock()
	defer c.mu.Unlock()
	var best *slot
	for _, s := range c.slots {
		if s.live.Load() && (best == nil || s.uses < best.uses) {
			best = s
		}
	}
	if best == nil {
		return false
	}
	l.slot.uses--
	l.slot = best
	l.slot.uses++
	return true
}

// wait says that the operation will only wait from now on, so that others prefer this session to making another. Samba tells one of
// its processes late of what another changes, which for a watch is the process of this session.
func (l *lease) wait() {
	l.from.mu.Lock()
	defer l.from.mu.Unlock()
	l.waits = true
	l.slot.uses--
}

// take returns a lease of the slot with the fewest uses, the first of them, so that a session in no use comes before one that has to
// be made.
func (c *connections) take() *lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	s := slices.MinFunc(c.slots, func(a, b *slot) int { return a.uses - b.uses })
	s.uses++
	c.uses++
	return &lease{from: c, slot: s, closing: c.closing}
}

// prepare makes the session and the mount where there are none. It ends with ctx, or with ErrClosed when the connections are closed.
func (l *lease) prepare(ctx context.Context, share string) error {
	making, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.closing, cancel)()
	mounted, err := l.make(making, share)
	if err != nil && ctx.Err() == nil && l.closing.Err() != nil {
		return smb.ErrClosed
	}
	if mounted != nil {
		l.share = mounted.WithContext(ctx)
	}
	return err
}

func (l *lease) make(ctx context.Context, share string) (mounted *smb.Share, err error) {
	s := l.slot
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s.session == nil {
		session, err := l.from.dialer.Dial(ctx, l.from.addr)
		if err != nil {
			return nil, err
		}
		s.session, s.shares = session, map[string]*smb.Share{}
		s.live.Store(true)
	}
	l.Session = s.session
	if share == "" {
		return nil, nil
	}
	if mounted = s.shares[share]; mounted == nil {
		if mounted, err = s.session.Mount(ctx, share); err != nil {
			return nil, err
		}
		s.shares[share] = mounted
	}
	return mounted, nil
}

// release ends the lease; a second call does nothing. A session that cannot be used again is closed: package smb connects it again by
// itself in other cases.
func (l *lease) release(err error) { l.ended.Do(func() { l.end(err) }) }

func (l *lease) end(err error) {
	if errors.Is(err, smb.ErrShareLost) || errors.Is(err, smb.ErrClosed) || errors.Is(err, smb.ErrLogin) {
		l.slot.closeIf(l.Session)
	}
	c := l.from
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.waits {
		l.slot.uses--
	}
	if c.uses--; c.uses == 0 && c.idle > 0 {
		c.timer = time.AfterFunc(c.idle, c.closeIdle)
	}
}

// closeIf closes the slot's session if it is still that one.
func (s *slot) closeIf(session *smb.Session) {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	if s.session == session {
		s.close()
	}
}

// close closes the session, if there is one. The caller is the one who has put a value into busy.
func (s *slot) close() {
	if s.session == nil {
		return
	}
	s.session.Close() // its operations fail; what the server has is released with the connection
	s.session, s.shares = nil, nil
	s.live.Store(false)
}

// closeIdle closes the sessions unless one is in use. Then none is being made either, so that it waits for nothing.
func (c *connections) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses == 0 {
		c.closeAll()
	}
}

// close closes all sessions, and ends what makes one. Operations that use them fail.
func (c *connections) close() {
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	end := c.end
	c.closing, c.end = context.WithCancel(context.Background())
	c.mu.Unlock()
	end()
	c.closeAll()
}

func (c *connections) closeAll() {
	for _, s := range c.slots {
		s.busy <- struct{}{}
		s.close()
		<-s.busy
	}
}
