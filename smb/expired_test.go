package smb_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// expiring is a scripted server whose sessions expire.
type expiring struct {
	*script.Server
	dials int

	mu      sync.Mutex
	expired bool
	refused int  // requests of the expired session
	renewed int  // authentications of a session that was set up
	deny    bool // further authentications
	bare    int  // further authentications without the protection of the session
}

func newExpiring(s *script.Server) *expiring {
	e := &expiring{Server: s}
	setUp := false
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch m.Command {
		case proto.CommandNegotiate:
			setUp = false
		case proto.CommandSessionSetup:
			if !setUp {
				setUp, e.expired = true, false
				return false
			}
			e.renewed++
			if !m.Sealed && m.Flags&proto.FlagSigned == 0 || m.SessionID != script.Session {
				e.bare++
			}
			if e.deny {
				c.Refuse(m, proto.StatusLogonFailure)
				return true
			}
			e.expired = false
		default:
			if e.expired {
				e.refused++
				c.Refuse(m, proto.StatusNetworkSessionExpired)
				return true
			}
		}
		return false
	}
	return e
}

func (e *expiring) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expired = true
}

func (e *expiring) hasExpired() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.expired
}

func (e *expiring) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	e.dials++
	return e.Server.DialTCP(ctx, network, addr)
}

// When the server reports a session as expired, the client authenticates again on the same connection and
// sends every kind of request again.
func TestExpiredSession(t *testing.T) {
	for name, s := range protections() {
		t.Run(name, func(t *testing.T) {
			e := newExpiring(s)
			f, err := scripted(t, e.Server, smb.Dialer{DialFunc: through(t, e.Dial)})
			must(t, err)
			share := f.Share()
			for what, op := range map[string]func() error{
				"read":      func() error { checkRead(t, f, 100_000, 3); return nil },
				"long read": func() error { checkRead(t, f, 3<<20, 3); return nil },
				"write":     func() error { _, err := f.WriteAt(make([]byte, 3<<20), 0); return err },
				"buffer": func() error {
					b, err := f.ReadBuffer(t.Context(), 0, 1000)
					b.Free()
					return err
				},
				"sync":     f.Sync,
				"compound": func() error { _, err := share.Stat("file"); return err },
				"once":     func() error { return share.Mkdir("dir", 0o777) },
				"stream": func() error {
					_, err := io.CopyN(io.Discard, f, 2<<20)
					return err
				},
				"echo": func() error { return share.Session().Echo(t.Context()) },
			} {
				before := e.renewed
				e.expire()
				if err := op(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				if e.renewed != before+1 {
					t.Errorf("%s: authenticated %d times", what, e.renewed-before)
				}
			}
			if e.dials != 1 {
				t.Errorf("%d connections", e.dials)
			}
			if e.bare != 0 {
				t.Errorf("%d authentications without the session's protection", e.bare)
			}
		})
	}
}

// TestExpiredCompound has the server sign the replies to the related requests of a compound wrongly when the session has expired, as
// Samba 4.17 does.
func TestExpiredCompound(t *testing.T) {
	s := protections()["signed/GMAC"]
	e := newExpiring(s)
	refuse := s.Hook
	wrong := 0
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if e.hasExpired() && m.Flags&proto.FlagRelated != 0 {
			wrong++
			c.Raw(forgedFrame(proto.Header{
				Command: m.Command, Status: proto.StatusInvalidParameter, Flags: proto.FlagSigned, Credits: 1, MessageID: m.MessageID,
				SessionID: m.SessionID, TreeID: m.TreeID,
			}, errorBody()...))
			return true
		}
		return refuse(c, m)
	}
	f, err := scripted(t, e.Server, smb.Dialer{DialFunc: through(t, e.Dial)})
	must(t, err)
	for name, op := range map[string]func() error{
		"Stat":      func() error { _, err := f.Share().Stat("file"); return err },
		"WriteFile": func() error { return f.Share().WriteFile("file", []byte("data"), 0o666) },
	} {
		e.expire()
		if err := op(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if wrong == 0 || e.dials != 1 {
		t.Errorf("%d wrong signatures, %d connections", wrong, e.dials)
	}
}

// TestExpiredTogether runs many calls while the session expires: the client authenticates once for each time
// that it expires.
func TestExpiredTogether(t *testing.T) {
	e := newExpiring(protections()["signed/GMAC"])
	f, err := scripted(t, e.Server, smb.Dialer{DialFunc: through(t, e.Dial)})
	must(t, err)
	const rounds = 20
	for range rounds {
		e.expire()
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				p := make([]byte, 100_000)
				if n, err := f.ReadAt(p, 5); n != len(p) || err != nil {
					t.Error(n, err)
				}
			})
		}
		callers.Wait()
	}
	if e.renewed != rounds || e.dials != 1 {
		t.Errorf("%d authentications on %d connections", e.renewed, e.dials)
	}
}

// When the server refuses the new authentication, or continues to report the session as expired, the client
// makes a new connection, and a bounded number of them.
func TestExpiredForGood(t *testing.T) {
	t.Run("denied", func(t *testing.T) {
		e := newExpiring(protections()["signed/GMAC"])
		f, err := scripted(t, e.Server, smb.Dialer{DialFunc: through(t, e.Dial)})
		must(t, err)
		e.deny = true
		e.expire()
		if _, err := f.Share().Stat("file"); err != nil { // on the second connection
			t.Error(err)
		}
		if e.dials != 2 || e.renewed != 1 {
			t.Errorf("%d connections, %d authentications", e.dials, e.renewed)
		}
	})
	t.Run("again and again", func(t *testing.T) {
		s := protections()["signed/GMAC"]
		e := newExpiring(s)
		f, err := scripted(t, e.Server, smb.Dialer{DialFunc: through(t, e.Dial)})
		must(t, err)
		hook := s.Hook
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			if m.Command != proto.CommandSessionSetup && m.Command != proto.CommandNegotiate && m.Command != proto.CommandTreeConnect {
				e.expire()
			}
			return hook(c, m)
		}
		if _, err := f.Share().Stat("file"); !errors.Is(err, smb.ErrConnLost) {
			t.Error(err)
		}
		if e.dials > 8 || e.renewed > 60 {
			t.Errorf("%d connections, %d authentications", e.dials, e.renewed)
		}
	})
}

// TestExpiredCloseOfEndedContext ends the context of File.Close or Share.Unmount, whose request the server refuses because the session
// has expired: the request is sent again after the user has been authenticated, or the server would keep the file open.
func TestExpiredCloseOfEndedContext(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for name, command := range map[string]proto.Command{"Close": proto.CommandClose, "Unmount": proto.CommandTreeDisconnect} {
		for _, kind := range kinds() {
			for _, held := range []proto.Command{command, proto.CommandSessionSetup} {
				t.Run(name+"/"+kind+"/"+held.String()+" waits", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testExpiredClose(t, protections()[kind], command, held) })
				})
			}
		}
	}
}

// testExpiredClose has the session be expired when command arrives, and the server not answer held until the context has ended.
func testExpiredClose(t *testing.T, s *script.Server, command, held proto.Command) {
	var sent sentCommands
	answer := make(chan struct{})
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		sent.add(m.Command)
		if m.Command == held && sent.count(command) == 1 {
			<-answer
		}
		if m.Command == command && sent.count(command) == 1 {
			c.Refuse(m, proto.StatusNetworkSessionExpired)
			return true
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{NoReconnect: true})
	must(t, err)
	before := sent.count(proto.CommandSessionSetup)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		if command == proto.CommandClose {
			ended <- f.WithContext(ctx).Close()
		} else {
			ended <- f.Share().WithContext(ctx).Unmount()
		}
	}()
	synctest.Wait()
	cancel()
	synctest.Wait()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
	default:
		t.Error("the call did not end with its context")
	}
	close(answer)
	synctest.Wait()
	if n := sent.count(command); n != 2 {
		t.Errorf("the request was sent %d times, want 2", n)
	}
	if n := sent.count(proto.CommandSessionSetup) - before; n != 1 {
		t.Errorf("%d authentications, want 1", n)
	}
	must(t, f.Share().Session().Echo(t.Context()))
}

// TestForgottenSession has the server forget a session, as when its administrator closes it. A server without the session has no key
// to sign its answer with (MS-SMB2 3.3.5.2.9).
func TestForgottenSession(t *testing.T) {
	for _, kind := range []string{"plain", "signed/GMAC"} {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			var forgotten atomic.Bool
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				if m.Command == proto.CommandNegotiate {
					forgotten.Store(false)
				}
				if forgotten.Load() {
					c.Raw(forgedFrame(proto.Header{
						Command: m.Command, Status: proto.StatusUserSessionDeleted, Credits: 1, MessageID: m.MessageID,
						SessionID: m.SessionID, TreeID: m.TreeID,
					}, errorBody()...))
				}
				return forgotten.Load()
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			forgotten.Store(true)
			if _, err := f.Share().Stat("file"); err != nil {
				t.Error(err)
			}
			forgotten.Store(true)
			if err := f.Share().Mkdir("dir", 0); !errors.Is(err, smb.ErrConnLost) || errors.Is(err, smb.ErrSecurity) {
				t.Error(err)
			}
			must(t, f.Share().Session().Echo(t.Context()))
		})
	}
}
