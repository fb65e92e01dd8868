package smb_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// readsOf answers requests other than READ, ECHO too, and gives READs to read.
func readsOf(s *script.Server, read func(c *script.Conn, m *script.Message) bool) {
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		return m.Command == proto.CommandRead && read(c, &script.Message{Header: m.Header, Body: bytes.Clone(m.Body), Sealed: m.Sealed})
	}
}

// timeoutFile dials s, with keep-alive on, and opens its file. It counts the connections.
func timeoutFile(t *testing.T, s *script.Server, limit time.Duration) (f *smb.File, dials *atomic.Int32) {
	t.Helper()
	dials = new(atomic.Int32)
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), AllowUnsigned: true, NoDurable: true, RequestTimeout: limit}
	inner := through(t, s.Dial)
	d.DialFunc = func(ctx context.Context, n, a string) (net.Conn, error) { dials.Add(1); return inner(ctx, n, a) }
	sess, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	t.Cleanup(func() { sess.Close() })
	share, err := sess.Mount(context.Background(), "share")
	must(t, err)
	f, err = share.Open("file")
	must(t, err)
	return f, dials
}

// eachKindFake is eachKind with fake time.
func eachKindFake(t *testing.T, use func(t *testing.T, s *script.Server)) {
	t.Helper()
	faultnet.NeedsFakeTime(t)
	eachKind(t, func(t *testing.T, s *script.Server) {
		synctest.Test(t, func(t *testing.T) { use(t, s) })
	})
}

// TestRequestTimeout has a server answer ECHO and not a READ.
func TestRequestTimeout(t *testing.T) {
	for name, c := range map[string]struct{ set, want time.Duration }{
		"default": {0, time.Minute}, "set": {8 * time.Second, 8 * time.Second}, "none": {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			eachKindFake(t, func(t *testing.T, s *script.Server) {
				readsOf(s, func(*script.Conn, *script.Message) bool { return true })
				f, dials := timeoutFile(t, s, c.set)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				begun := time.Now()
				_, err := f.WithContext(ctx).ReadAt(make([]byte, 10), 0)
				took := time.Since(begun)
				if c.want == 0 {
					if took != time.Hour || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v after %v", err, took)
					}
					return
				}
				if !errors.Is(err, smb.ErrConnLost) || !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				if took < c.want || took > c.want+c.want/8 {
					t.Errorf("after %v", took)
				}
				if _, err := f.Share().Stat("file"); err != nil || dials.Load() != 2 {
					t.Errorf("next call: %v, on connection %d", err, dials.Load())
				}
			})
		})
	}
}

// TestRequestTimeoutPending has the server acknowledge a READ and answer it two hours later.
func TestRequestTimeoutPending(t *testing.T) {
	eachKindFake(t, func(t *testing.T, s *script.Server) {
		readsOf(s, func(c *script.Conn, m *script.Message) bool {
			c.Pend(m, 5)
			time.AfterFunc(2*time.Hour, func() { c.Obey(m) })
			return true
		})
		f, _ := timeoutFile(t, s, 0)
		checkRead(t, f, 10, 3)
	})
}

// TestRequestTimeoutSlow has the server answer one READ in 50 seconds: the last of ten is answered after 500.
func TestRequestTimeoutSlow(t *testing.T) {
	eachKindFake(t, func(t *testing.T, s *script.Server) {
		var mu sync.Mutex
		var last time.Time
		readsOf(s, func(c *script.Conn, m *script.Message) bool {
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now(); last.Before(now) {
				last = now
			}
			last = last.Add(50 * time.Second)
			time.AfterFunc(time.Until(last), func() { c.Obey(m) })
			return true
		})
		f, dials := timeoutFile(t, s, 0)
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() { checkRead(t, f, 10, int64(i)) })
		}
		calls.Wait()
		if dials.Load() != 1 {
			t.Errorf("%d connections", dials.Load())
		}
	})
}

// TestRequestTimeoutLeftOut has the server answer every request but one.
func TestRequestTimeoutLeftOut(t *testing.T) {
	eachKindFake(t, func(t *testing.T, s *script.Server) {
		readsOf(s, func(*script.Conn, *script.Message) bool { return true })
		f, _ := timeoutFile(t, s, 0)
		failed := make(chan error, 1)
		begun := time.Now()
		go func() {
			_, err := f.ReadAt(make([]byte, 10), 0)
			failed <- err
		}()
		synctest.Wait()
		for {
			select {
			case err := <-failed:
				if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took > 70*time.Second {
					t.Errorf("%v after %v", err, took)
				}
				return
			case <-time.After(time.Second):
				if _, err := f.Share().Stat("other"); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestRequestTimeoutLongFrame has a frame of 1 MiB arrive for five minutes, a part every ten seconds, and another READ wait behind it.
func TestRequestTimeoutLongFrame(t *testing.T) {
	eachKindFake(t, func(t *testing.T, s *script.Server) {
		if s.MaxIO != 0 || s.Grant != nil {
			return // no frame is as long
		}
		s.Slow = func(frame []byte) (part int, pause time.Duration) {
			if len(frame) > 1<<20 {
				return len(frame) / 30, 10 * time.Second
			}
			return 0, 0
		}
		f, dials := timeoutFile(t, s, 0)
		var calls sync.WaitGroup
		calls.Go(func() { checkRead(t, f, 1<<20, 0) })
		synctest.Wait()
		calls.Go(func() { checkRead(t, f, 10, 0) })
		calls.Wait()
		if dials.Load() != 1 {
			t.Errorf("%d connections", dials.Load())
		}
	})
}

// TestRequestTimeoutCancelled cancels a READ that the server does not answer: the connection ends nevertheless.
func TestRequestTimeoutCancelled(t *testing.T) {
	eachKindFake(t, func(t *testing.T, s *script.Server) {
		readsOf(s, func(*script.Conn, *script.Message) bool { return true })
		f, dials := timeoutFile(t, s, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.WithContext(ctx).ReadAt(make([]byte, 10), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		<-time.After(2 * time.Minute)
		if _, err := f.Share().Stat("file"); err != nil || dials.Load() != 2 {
			t.Errorf("%v, on connection %d", err, dials.Load())
		}
	})
}
