package smb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// flakyServer is a scripted server that grants durable handles and fails once it is armed. It is used in a bubble of package synctest.
type flakyServer struct {
	*script.Server
	refuses func(time.Time) bool                                   // a connection at that time
	fails   func(c *script.Conn, m *script.Message) (handled bool) // a request

	mu     sync.Mutex
	armed  bool
	last   net.Conn
	logins int // since it is armed
}

func newFlakyServer(kind string) *flakyServer {
	f := &flakyServer{Server: protections()[kind]}
	f.Size = 6 << 20
	f.Hook = func(c *script.Conn, m *script.Message) bool {
		f.mu.Lock()
		if f.armed && m.Command == proto.CommandNegotiate {
			f.logins++
		}
		failed := f.armed && f.fails != nil && f.fails(c, m)
		f.mu.Unlock()
		if failed {
			return true
		}
		if m.Command == proto.CommandCreate {
			c.Opened(m, durableGrant(), func(b []byte) { b[2] = byte(proto.OplockBatch) })
			return true
		}
		return false
	}
	return f
}

func (f *flakyServer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.armed && f.refuses != nil && f.refuses(time.Now()) {
		return nil, fmt.Errorf("dial %s: connection refused", addr)
	}
	nc, err := f.Server.Dial(ctx, network, addr)
	f.last = nc
	return nc, err
}

// isRequest reports whether m belongs to an operation, and not to the set-up of a connection.
func isRequest(m *script.Message) bool {
	return m.Command > proto.CommandTreeConnect
}

// budgetRequestTimeout is how long the client of a flakyServer waits for an answer.
const budgetRequestTimeout = 3 * time.Second

// budgetCalls are calls that need a connection.
func budgetCalls() map[string]func(ctx context.Context, share *smb.Share, f *smb.File) error {
	type (
		ctx   = context.Context
		share = *smb.Share
		file  = *smb.File
	)
	return map[string]func(ctx, share, file) error{
		"Stat":            func(_ ctx, s share, _ file) error { _, err := s.Stat("x"); return err },
		"Mkdir":           func(_ ctx, s share, _ file) error { return s.Mkdir("x", 0o777) },
		"ReadFile":        func(_ ctx, s share, _ file) error { _, err := s.ReadFile("x"); return err },
		"WriteFile":       func(_ ctx, s share, _ file) error { return s.WriteFile("x", []byte("data"), 0o666) },
		"large WriteFile": func(_ ctx, s share, _ file) error { return s.WriteFile("x", make([]byte, 100_000), 0o666) },
		"ReplaceFile":     func(_ ctx, s share, _ file) error { return s.ReplaceFile("x", []byte("data"), 0o666, time.Time{}) },
		"ReadDir":         func(_ ctx, s share, _ file) error { _, err := s.ReadDir("x"); return err },
		"Open":            func(_ ctx, s share, _ file) error { _, err := s.Open("x"); return err },
		"Copy":            func(_ ctx, s share, _ file) error { _, err := s.Copy("x", "y"); return err },
		"RemoveAll":       func(_ ctx, s share, _ file) error { return s.RemoveAll("x") },
		"Watch": func(_ ctx, s share, _ file) error {
			w, err := s.Watch("x", smb.WatchAll)
			if err == nil {
				w.Close() // it may have the server's answer
			}
			return err
		},
		"ReadAt":      func(_ ctx, _ share, f file) error { _, err := f.ReadAt(make([]byte, 100), 0); return err },
		"long ReadAt": func(_ ctx, _ share, f file) error { _, err := f.ReadAt(make([]byte, 5<<20), 0); return err },
		"WriteAt":     func(_ ctx, _ share, f file) error { _, err := f.WriteAt(make([]byte, 100), 0); return err },
		"Read":        func(_ ctx, _ share, f file) error { _, err := f.Read(make([]byte, 100)); return err },
		"Lock":        func(_ ctx, _ share, f file) error { return f.Lock(0, 10, smb.LockExclusive) },
		"File.Stat":   func(_ ctx, _ share, f file) error { _, err := f.Stat(); return err },
		"File.Close":  func(_ ctx, _ share, f file) error { return f.Close() },
		"Echo":        func(c ctx, s share, _ file) error { return s.Session().Echo(c) },
		"Mount":       func(c ctx, s share, _ file) error { _, err := s.Session().Mount(c, "another"); return err },
	}
}

// TestBudget has a server fail in the ways that a client can meet, with fake time: no call makes more than five new connections, or is
// without one for longer than Limits.RedialTimeout and the attempt that began last.
func TestBudget(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	const dialTimeout = 2 * time.Second
	lose := func(c *script.Conn, m *script.Message) bool {
		if !isRequest(m) {
			return false
		}
		c.Close()
		return true
	}
	for name, scenario := range map[string]struct {
		arm    func(f *flakyServer)
		want   error
		logins int // at most
		from   time.Duration
		to     time.Duration
	}{
		"drops each request": {
			arm: func(f *flakyServer) { f.fails = lose }, want: smb.ErrConnLost, logins: 5, to: 0,
		},
		"drops each TREE_CONNECT": {
			arm: func(f *flakyServer) {
				f.fails = func(c *script.Conn, m *script.Message) bool {
					if m.Command != proto.CommandTreeConnect && !isRequest(m) {
						return false
					}
					c.Close()
					return true
				}
			}, want: smb.ErrConnLost, logins: 5, to: 0,
		},
		"refuses connections": {
			arm: func(f *flakyServer) {
				f.fails, f.refuses = lose, func(time.Time) bool { return true }
			}, want: smb.ErrConnLost, logins: 0, to: smb.DefaultRedialTimeout,
		},
		"answers no login": {
			arm: func(f *flakyServer) {
				f.fails = func(c *script.Conn, m *script.Message) bool {
					return m.Command == proto.CommandNegotiate || lose(c, m)
				}
			}, want: smb.ErrConnLost, logins: 4, from: smb.DefaultRedialTimeout - dialTimeout, to: smb.DefaultRedialTimeout + 2*dialTimeout,
		},
		"answers no TREE_CONNECT": {
			arm: func(f *flakyServer) {
				f.fails = func(_ *script.Conn, m *script.Message) bool {
					return m.Command == proto.CommandTreeConnect || isRequest(m)
				}
			}, want: smb.ErrConnLost, logins: 2, from: budgetRequestTimeout, to: 2 * budgetRequestTimeout * 9 / 8, // ReplaceFile also removes its file
		},
		"answers no request": {
			arm: func(f *flakyServer) {
				f.fails = func(_ *script.Conn, m *script.Message) bool { return isRequest(m) }
			}, want: smb.ErrConnLost, logins: 2, from: budgetRequestTimeout, to: 2 * budgetRequestTimeout * 9 / 8, // ReplaceFile also removes its file
		},
		"refuses connections for 2 s after each loss": {
			arm: func(f *flakyServer) {
				until := time.Now().Add(2 * time.Second)
				f.refuses = func(now time.Time) bool { return now.Before(until) }
				f.fails = func(c *script.Conn, m *script.Message) bool {
					if isRequest(m) {
						until = time.Now().Add(2 * time.Second)
					}
					return lose(c, m)
				}
			}, want: smb.ErrConnLost, logins: 2, to: smb.DefaultRedialTimeout,
		},
		"is back after 3 s": {
			arm: func(f *flakyServer) {
				until := time.Now().Add(3 * time.Second)
				f.refuses = func(now time.Time) bool { return now.Before(until) }
				f.fails = func(c *script.Conn, m *script.Message) bool {
					return time.Now().Before(until) && lose(c, m)
				}
			}, logins: 1, from: 3 * time.Second, to: 4 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range kinds() {
				for call, run := range budgetCalls() {
					t.Run(kind+"/"+call, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							srv := newFlakyServer(kind)
							logins, took, err := srv.use(t, smb.Limits{DialTimeout: dialTimeout}, scenario.arm, run)
							// A server that drops requests for files alone does not disturb a Mount.
							lost := errors.Is(err, smb.ErrConnLost)
							if lost != (scenario.want != nil) && !(call == "Mount" && !lost) {
								t.Errorf("%v, want %v", err, scenario.want)
							}
							if logins > scenario.logins || took < scenario.from && lost || took > scenario.to {
								t.Errorf("%d logins in %v, want %d at most in %v to %v", logins, took, scenario.logins, scenario.from, scenario.to)
							}
						})
					})
				}
			}
		})
	}
}

// use makes a call whose connection was lost before, and returns how many logins the server has seen and how long the call took.
func (f *flakyServer) use(t *testing.T, l smb.Limits, arm func(*flakyServer), call func(context.Context, *smb.Share, *smb.File) error) (int, time.Duration, error) {
	t.Helper()
	l.KeepAlive = -1
	d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, f.dial), Pool: newPool(t), Limits: l, RequestTimeout: budgetRequestTimeout}
	sess, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	defer sess.Close()
	share, err := sess.Mount(t.Context(), "share")
	must(t, err)
	file, err := share.OpenFile("file", os.O_RDWR, 0)
	must(t, err)
	f.mu.Lock()
	arm(f)
	f.armed = true
	f.mu.Unlock()
	f.last.Close()
	synctest.Wait()
	begun := time.Now()
	err = call(t.Context(), share, file)
	took := time.Since(begun)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logins, took, err
}
