package h2

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// waitingOpens is how many Opens of c wait.
func waitingOpens(c *Conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.openers)
}

// opens is what an Open that waited has returned, and which one it was.
type opens struct {
	i   int
	s   *Stream
	err error
}

// openLater starts n Opens, one after the other has begun to wait.
func openLater(t *testing.T, c *Conn, ctx func(i int) context.Context, n int) <-chan opens {
	t.Helper()
	results := make(chan opens, n)
	for i := range n {
		go func() {
			s, err := c.Open(ctx(i), newCall(), &Out{Block: testRequest, Ending: End})
			results <- opens{i, s, err}
		}()
		eventually(t, "an Open that waits", func() bool { return waitingOpens(c) == i+1 }, stacks)
	}
	return results
}

// A stream that ends goes to the Open that has waited longest: neither Opens that began to wait later nor those that
// come before it runs again take it.
func TestOpensTakeTurns(t *testing.T) {
	const waiting = 10
	r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	results := openLater(t, c, func(int) context.Context { return context.Background() }, waiting)
	for i := range waiting {
		c.mu.Lock() // the Open that waits longest cannot run before another has looked
		c.resetByUser(s, Cancel)
		_, err := c.open(nil, nil, &Out{Block: testRequest}) //lint:ignore SA1012 nil means: without waiting
		c.mu.Unlock()
		if err != ErrStreamLimit {
			t.Fatalf("an Open that comes when %d wait gets %v", waiting-i, err)
		}
		if c.CanOpen() {
			t.Error("CanOpen while Opens wait")
		}
		s.Release()
		o := <-results
		if o.err != nil || o.i != i {
			t.Fatalf("Open %d returned %v, not Open %d", o.i, o.err, i)
		}
		s = o.s
	}
	s.Release()
	if !c.CanOpen() || waitingOpens(c) != 0 {
		t.Errorf("%d Opens wait when all have opened", waitingOpens(c))
	}
	pingPong(r, c)
}

// Opens that are cancelled leave their place to those behind them, also when a stream has just become free.
func TestOpensThatAreCancelledPassTheirTurn(t *testing.T) {
	const waiting = 10
	_, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(context.Background())
	results := openLater(t, c, func(i int) context.Context {
		if i < waiting-1 {
			return short
		}
		return context.Background()
	}, waiting)
	c.mu.Lock()
	cancel()
	c.resetByUser(s, Cancel)
	c.mu.Unlock()
	s.Release()
	for range waiting { // the cancelled ones may have opened nevertheless
		o := <-results
		if o.err == nil {
			o.s.Release()
		} else if o.i == waiting-1 || o.err != context.Canceled {
			t.Errorf("Open %d: %v", o.i, o.err)
		}
	}
	if !c.CanOpen() || waitingOpens(c) != 0 {
		t.Errorf("%d Opens wait when all have returned", waitingOpens(c))
	}
}

// fillQueue queues so much on c that new streams wait, and has nothing sent before the function that it returns is called.
func fillQueue(t *testing.T, c *Conn) (send func()) {
	t.Helper()
	eventually(t, "the end of sending", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.send.state != notWriting {
			return false
		}
		c.send.state = sending
		for c.send.queued() < batchLimit {
			clear(c.put(frame{typ: 0xfa, length: 1000})) // of a type that the peer ignores
		}
		return true
	}, stacks)
	return func() {
		c.mu.Lock()
		c.send.state = notWriting
		c.send.flush(flushInTurn)
		c.mu.Unlock()
	}
}

// With NoWait an Open waits until less is queued, but never for a stream: not when the limit is reached while much is queued, and not
// when the peer lowers it meanwhile.
func TestNoWaitWhileMuchIsQueued(t *testing.T) {
	r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
	openNoWait := func() <-chan opens {
		result := make(chan opens, 1)
		go func() {
			s, err := c.Open(t.Context(), newCall(), &Out{Block: testRequest, Ending: End, NoWait: true})
			result <- opens{s: s, err: err}
		}()
		return result
	}
	wantLimit := func(result <-chan opens) {
		t.Helper()
		select {
		case o := <-result:
			if o.err != ErrStreamLimit {
				t.Errorf("Open: %v, not %v", o.err, ErrStreamLimit)
			}
		case <-time.After(5 * time.Second):
			t.Error("Open waits for a stream")
		}
	}
	s, err := c.Open(t.Context(), newCall(), &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	send := fillQueue(t, c)
	waiting := openNoWait()
	eventually(t, "an Open that waits", func() bool { return waitingOpens(c) == 1 }, stacks)
	wantLimit(openNoWait()) // the one that waits takes the last stream
	send()
	o := <-waiting
	if o.err != nil {
		t.Fatal(o.err)
	}
	o.s.Release()

	send = fillQueue(t, c)
	waiting = openNoWait()
	eventually(t, "an Open that waits", func() bool { return waitingOpens(c) == 1 }, stacks)
	r.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	wantLimit(waiting)
	send()
	pingPong(r, c)
}

// TestStreamNumbersUsedUp: after the last one a client's connection opens no stream, and CanOpen says so.
func TestStreamNumbersUsedUp(t *testing.T) {
	_, c, _ := rawClient(t, Config{})
	c.mu.Lock()
	c.nextID = maxStreamID
	c.mu.Unlock()
	if err := openable(c); err != nil || c.CanOpen() || !errors.Is(c.Unusable(), ErrNoStreamIDs) {
		t.Errorf("the last number: %v; afterwards CanOpen is %v, Unusable %v", err, c.CanOpen(), c.Unusable())
	}
	if err := openable(c); !errors.Is(err, ErrNoStreamIDs) {
		t.Errorf("one more: %v", err)
	}
}

// TestOpenLater: the header of a stream waits for Flush, or for the next Write, with which it leaves.
func TestOpenLater(t *testing.T) {
	for name, next := range map[string]func(*Stream) error{
		"Flush": func(s *Stream) error { s.c.Flush(); return nil },
		"Write": func(s *Stream) error { return s.Write(context.Background(), &Out{Data: s.c.cfg.Pool.Get(100)}) },
	} {
		t.Run(name, func(t *testing.T) {
			r, c, _ := rawClient(t, Config{})
			pingPong(r, c)
			eventually(t, "a pause of the goroutine that reads", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return !c.handling // or its end would send
			}, stacks)
			s, err := c.OpenLater(context.Background(), newCall(), &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			c.mu.Lock()
			queued := c.send.queued()
			c.mu.Unlock()
			if queued == 0 {
				t.Error("the header has been sent")
			}
			if err := next(s); err != nil {
				t.Fatal(err)
			}
			r.wait("HEADERS", func(f seen) bool { return f.typ == http2.FrameHeaders && f.id == s.ID() })
		})
	}
}
