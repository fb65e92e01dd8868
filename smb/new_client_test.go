package smb_test

import (
	"context"
	"errors"
	"net"
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

// stuck is a scripted server that answers no client whose ClientGUID it has seen before it got stuck, as Samba does while the
// process of that client does not run.
type stuck struct {
	*script.Server
	stuck atomic.Bool
	all   atomic.Bool // nobody is answered
	holds atomic.Bool // a request of a client that has logged in is not answered
	last  net.Conn

	mu     sync.Mutex
	known  map[string]bool // the ClientGUIDs seen
	silent map[*script.Conn]bool
}

func (x *stuck) clients() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.known)
}

func newStuck(s *script.Server) *stuck {
	x := &stuck{Server: s, known: map[string]bool{}, silent: map[*script.Conn]bool{}}
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		switch {
		case x.holds.Load() && m.Command > proto.CommandTreeConnect:
			return true
		case m.Command == proto.CommandCreate:
			c.Opened(m, durableGrant(), func(b []byte) { b[2] = byte(proto.OplockBatch) })
			return true
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if m.Command == proto.CommandNegotiate {
			guid := string(m.Body[12:28])
			x.silent[c] = x.all.Load() || x.stuck.Load() && x.known[guid]
			x.known[guid] = true
		}
		return x.silent[c]
	}
	return x
}

func (x *stuck) open(t *testing.T, d smb.Dialer) *smb.File {
	d.Initiator, d.Pool = fixedKey{}, newPool(t)
	d.Limits.KeepAlive = -1
	d.DialFunc = func(ctx context.Context, n, a string) (net.Conn, error) {
		nc, err := through(t, x.Dial)(ctx, n, a)
		x.last = nc
		return nc, err
	}
	sess, err := d.Dial(context.Background(), "scripted")
	must(t, err)
	t.Cleanup(func() { sess.Close() })
	share, err := sess.Mount(context.Background(), "share")
	must(t, err)
	f, err := share.Open("file")
	must(t, err)
	return f
}

// TestStuckClient loses a connection to a server that does not answer the same client again, but others: after DialTimeout the
// session is a new client.
func TestStuckClient(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		for name, patience := range map[string]time.Duration{"calls that wait": time.Hour, "calls with deadlines": 7 * time.Second} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				s := protections()[kind]
				synctest.Test(t, func(t *testing.T) {
					x := newStuck(s)
					f := x.open(t, smb.Dialer{})
					x.stuck.Store(true)
					x.last.Close()
					stat := func() error {
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						defer cancel()
						_, err := f.Share().WithContext(ctx).Stat("file")
						return err
					}
					begun := time.Now()
					for err := stat(); err != nil; err = stat() {
						if patience == time.Hour || !errors.Is(err, context.DeadlineExceeded) {
							t.Fatal(err)
						}
						if time.Since(begun) > time.Minute {
							t.Fatal("the server is still asked as the old client")
						}
					}
					if d := time.Since(begun); d < smb.DefaultDialTimeout || d > smb.DefaultDialTimeout+7*time.Second {
						t.Errorf("took %v", d)
					}
					begun = time.Now()
					must(t, stat())
					if _, err := f.ReadAt(make([]byte, 1), 0); err != nil && !errors.Is(err, smb.ErrHandleLost) {
						t.Error(err)
					}
					if d := time.Since(begun); d > time.Second {
						t.Errorf("calls on the new connection took %v", d)
					}
				})
			})
		}
	}
}

// TestSilentServerKeepsClient loses a connection to a server that answers nobody for a while: the session is the same client
// afterwards, and has its open files.
func TestSilentServerKeepsClient(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			synctest.Test(t, func(t *testing.T) {
				x := newStuck(s)
				f := x.open(t, smb.Dialer{})
				x.all.Store(true)
				x.last.Close()
				begun := time.Now()
				for range 3 {
					if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, smb.ErrConnLost) {
						t.Error(err)
					}
				}
				if d, want := time.Since(begun), 3*(smb.DefaultDialTimeout+smb.DefaultRedialTimeout+time.Second); d > want {
					t.Errorf("took %v, want %v", d, want)
				}
				seen := x.clients()
				x.all.Store(false)
				checkRead(t, f, 100, 0)
				if x.clients() != seen {
					t.Error("the session is another client")
				}
			})
		})
	}
}

// TestClientGUIDOfProgram: a ClientGUID that the program has chosen is never replaced.
func TestClientGUIDOfProgram(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	synctest.Test(t, func(t *testing.T) {
		x := newStuck(&script.Server{})
		f := x.open(t, smb.Dialer{ClientGUID: [16]byte{1, 2, 3}})
		x.stuck.Store(true)
		x.last.Close()
		for range 3 {
			if _, err := f.Share().Stat("file"); !errors.Is(err, smb.ErrConnLost) {
				t.Error(err)
			}
		}
		if n := x.clients(); n != 1 {
			t.Errorf("%d clients", n)
		}
	})
}

// TestStuckClientOfUnansweredChange loses a connection with a request that is not answered, to a server that does not answer the same
// client again, but others. If the request changes something, the session stays the same client: a server that gets unstuck would
// carry the request out after those of the new client.
func TestStuckClientOfUnansweredChange(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		for _, call := range []struct {
			name    string
			changes bool
			run     func(s *smb.Share, f *smb.File) error
		}{
			{"ReadAt", false, func(_ *smb.Share, f *smb.File) error { _, err := f.ReadAt(make([]byte, 1), 0); return err }},
			{"Stat", false, func(s *smb.Share, _ *smb.File) error { _, err := s.Stat("file"); return err }},
			{"Open", false, func(s *smb.Share, _ *smb.File) error { _, err := s.Open("file"); return err }},
			{"WriteAt", true, func(_ *smb.Share, f *smb.File) error { _, err := f.WriteAt(make([]byte, 1), 0); return err }},
			{"Truncate", true, func(_ *smb.Share, f *smb.File) error { return f.Truncate(0) }},
			{"PunchHole", true, func(_ *smb.Share, f *smb.File) error { return f.PunchHole(0, 1) }},
			{"Create", true, func(s *smb.Share, _ *smb.File) error { _, err := s.Create("file"); return err }},
			{"WriteFile", true, func(s *smb.Share, _ *smb.File) error { return s.WriteFile("file", make([]byte, 1), 0o666) }},
			{"Rename", true, func(s *smb.Share, _ *smb.File) error { return s.Rename("file", "new") }},
			{"Remove", true, func(s *smb.Share, _ *smb.File) error { return s.Remove("file") }},
		} {
			for _, when := range []string{"waits", "cancelled"} {
				t.Run(kind+"/"+call.name+"/"+when, func(t *testing.T) {
					s := protections()[kind]
					synctest.Test(t, func(t *testing.T) {
						x := newStuck(s)
						f := x.open(t, smb.Dialer{})
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						x.holds.Store(true)
						done := make(chan error, 1)
						go func() { done <- call.run(f.Share().WithContext(ctx), f.WithContext(ctx)) }()
						synctest.Wait()
						if when == "cancelled" {
							cancel()
							synctest.Wait()
						}
						x.holds.Store(false)
						x.stuck.Store(true)
						x.last.Close()
						err := <-done
						if call.changes && when == "waits" && !errors.Is(err, smb.ErrConnLost) {
							t.Error(err)
						}
						for range 3 {
							if _, err := f.Share().Stat("file"); call.changes != errors.Is(err, smb.ErrConnLost) {
								t.Error(err)
							}
						}
						if n := x.clients(); (n == 1) != call.changes {
							t.Errorf("%d clients", n)
						}
						x.stuck.Store(false)
						_, err = f.Share().Stat("file")
						must(t, err)
					})
				})
			}
		}
	}
}
