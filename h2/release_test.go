package h2

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// TestReleaseDuringWrite: Release ends a Write that waits on another goroutine, and the stream is used again at once, by a Write that
// waits, too, without one taking what belongs to the other.
func TestReleaseDuringWrite(t *testing.T) {
	_, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	pool := c.cfg.Pool
	var wg sync.WaitGroup
	for i := range 300 {
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		size := 1000 + i
		began := make(chan struct{})
		wg.Go(func() {
			o := &Out{Data: pool.Copy(make([]byte, size))}
			close(began)
			if err := s.Write(context.Background(), o); !errors.Is(err, ErrStreamDone) {
				t.Errorf("a Write during Release: %v", err)
			}
		})
		<-began
		eventually(t, "a Write that waits", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return s.wait != nil && s.wait.active && s.wait.out.Data.Len() == size
		}, func() any { return i })
		s.Release()
	}
	wg.Wait()
	awaitStreams(t, c, 0)
}

// TestReleaseDuringReleasingWrite: a stream that is released while a Write with Release waits is released once.
func TestReleaseDuringReleasingWrite(t *testing.T) {
	r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- s.Write(context.Background(), &Out{Data: c.cfg.Pool.Copy(make([]byte, 100)), Release: true})
	}()
	eventually(t, "a Write that waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return s.wait != nil && s.wait.active
	}, func() any { return nil })
	s.Release()
	if err := <-ended; !errors.Is(err, ErrStreamDone) {
		t.Error(err)
	}
	r.wait("reset", isReset(1))
	awaitStreams(t, c, 0)
}

// TestReleaseBeforeReleasingWrite: a Write with Release panics if the stream is released after its DATA is queued, before it returns; the
// stream is released once.
func TestReleaseBeforeReleasingWrite(t *testing.T) {
	for name, write := range map[string]func(*Stream, context.Context, *Out) error{"Write": (*Stream).Write, "WriteLater": (*Stream).WriteLater} {
		t.Run(name, func(t *testing.T) {
			r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan any, 1)
			go func() {
				defer func() { ended <- recover() }()
				write(s, context.Background(), &Out{Data: c.cfg.Pool.Copy(make([]byte, 100)), Release: true})
			}()
			eventually(t, "a Write that waits", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return s.wait != nil && s.wait.active
			}, func() any { return nil })
			c.mu.Lock()
			s.out = 100
			c.relist(s)
			c.fill(minFill) // the Write is woken, and needs c.mu
			c.release(s)
			c.mu.Unlock()
			if v := <-ended; v != releasedTwice {
				t.Errorf("it ended with %v", v)
			}
			c.Flush()
			r.wait("reset", isReset(1))
			awaitStreams(t, c, 0)
		})
	}
}

// idleCounter counts OnIdle.
type idleCounter struct {
	*recorder
	idle atomic.Int32
}

func (h *idleCounter) OnIdle(*Conn) { h.idle.Add(1) }

// TestIdleAfterFailedOpen: OnIdle is called when the only stream is that of an Open whose DATA could not be sent in time.
func TestIdleAfterFailedOpen(t *testing.T) {
	a, b := wireOver(t)
	h := &idleCounter{recorder: newRecorder(t)}
	c, err := NewClient(a, h, Config{})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); c.Run() }()
	defer func() { b.Close(); c.Close(); <-run }()
	fr := http2.NewFramer(b, b)
	go silent(b)
	fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	<-h.gotSettings
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	o := &Out{Block: testRequest, Data: c.cfg.Pool.Copy(make([]byte, 100))}
	if _, err := c.Open(ctx, newCall(), o); !errors.Is(err, context.DeadlineExceeded) || !o.Opened {
		t.Fatalf("%v, opened %v", err, o.Opened)
	}
	if n := h.idle.Load(); n != 1 {
		t.Errorf("OnIdle was called %d times", n)
	}
}

// TestInformationalLength: the content-length of an informational response does not hold for the response.
func TestInformationalLength(t *testing.T) {
	r, c, _ := rawClient(t, Config{})
	k := newCall()
	s, err := c.Open(context.Background(), k, &Out{Block: testRequest, Ending: End})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	r.headers(1, More, ":status", "103", "content-length", "5")
	r.headers(1, More, ":status", "200")
	r.fr.WriteData(1, true, make([]byte, 20))
	<-k.done
	if k.err != nil || len(k.body) != 20 {
		t.Errorf("%d bytes, %v", len(k.body), k.err)
	}
}
