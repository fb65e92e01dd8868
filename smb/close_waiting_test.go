package smb_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestContextEndsBeforeCloseIsSent ends a context while File.Close or Share.Unmount waits for credits or for the socket. The call
// returns at once, and CLOSE or TREE_DISCONNECT is sent when the server goes on, or the server would keep the file open. When
// the connection ends instead, no goroutine and no buffer stays.
func TestContextEndsBeforeCloseIsSent(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	commands := map[string]proto.Command{"Close": proto.CommandClose, "Unmount": proto.CommandTreeDisconnect}
	for name, command := range commands {
		for wait, stall := range stalls() {
			for _, kind := range kinds() {
				for _, ending := range []string{"server goes on", "connection lost", "session closed"} {
					t.Run(name+"/"+wait+"/"+kind+"/"+ending, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							testContextEndsBeforeSent(t, protections()[kind], command, stall, ending)
						})
					})
				}
			}
		}
	}
}

// stalled is a connection on which nothing can be sent until resume is called.
type stalled struct {
	f      *smb.File
	conn   *script.Conn
	sent   *sentCommands
	resume func()
}

// stalls make connections that stall, each in another way. calls are the calls that stall them.
func stalls() map[string]func(t *testing.T, s *script.Server, calls *sync.WaitGroup) *stalled {
	return map[string]func(t *testing.T, s *script.Server, calls *sync.WaitGroup) *stalled{
		"for credits":    withoutCredits,
		"for the writer": withAnotherWriter,
		"to be written":  withSilentServer,
	}
}

func testContextEndsBeforeSent(t *testing.T, s *script.Server, command proto.Command, stall func(*testing.T, *script.Server, *sync.WaitGroup) *stalled, ending string) {
	var calls sync.WaitGroup
	st := stall(t, s, &calls)
	synctest.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		if command == proto.CommandClose {
			ended <- st.f.WithContext(ctx).Close()
		} else {
			ended <- st.f.Share().WithContext(ctx).Unmount()
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
	if st.sent.count(command) != 0 {
		t.Error("the request did not wait")
	}
	switch ending {
	case "server goes on":
		st.resume()
		calls.Wait()
		synctest.Wait()
		if n := st.sent.count(command); n != 1 {
			t.Errorf("the request was sent %d times", n)
		}
		if n := st.sent.count(proto.CommandCancel); n != 0 {
			t.Errorf("%d requests were cancelled", n)
		}
		must(t, st.f.Share().Session().Echo(t.Context())) // the reply that nobody waits for has done no harm
	case "connection lost":
		st.conn.Close()
		st.resume()
		calls.Wait()
	case "session closed":
		must(t, st.f.Share().Session().Close())
		st.resume()
		calls.Wait()
	}
}

// withoutCredits has a READ use the connection's only credit.
func withoutCredits(t *testing.T, s *script.Server, calls *sync.WaitGroup) *stalled {
	st := &stalled{sent: &sentCommands{}}
	var held script.Message
	s.Grant = func(uint16) uint16 { return 1 }
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		st.sent.add(m.Command)
		st.conn = c
		if m.Command == proto.CommandRead {
			held = *m
			held.Body = nil // of the connection's next frame
			return true
		}
		return false
	}
	st.open(t, s)
	calls.Go(func() { st.f.ReadAt(make([]byte, 1), 0) })
	st.resume = func() { st.conn.Refuse(&held, proto.StatusEndOfFile) }
	return st
}

// withAnotherWriter has the server read nothing while it handles a READ, and a WRITE wait for it with the right to write.
func withAnotherWriter(t *testing.T, s *script.Server, calls *sync.WaitGroup) *stalled {
	st := withSilentServer(t, s, calls)
	synctest.Wait()
	calls.Go(func() { st.f.WriteAt(make([]byte, 1), 0) })
	return st
}

// withSilentServer has the server read nothing while it handles a READ.
func withSilentServer(t *testing.T, s *script.Server, calls *sync.WaitGroup) *stalled {
	st := &stalled{sent: &sentCommands{}}
	silent := make(chan struct{})
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		st.sent.add(m.Command)
		st.conn = c
		if m.Command == proto.CommandRead {
			<-silent
		}
		return false
	}
	st.open(t, s)
	calls.Go(func() { st.f.ReadAt(make([]byte, 1), 0) })
	st.resume = func() { close(silent) }
	return st
}

func (st *stalled) open(t *testing.T, s *script.Server) {
	t.Helper()
	f, err := scripted(t, s, smb.Dialer{NoReconnect: true})
	must(t, err)
	st.f = f
}

// TestReauthenticationFailsBeforeCloseIsSent has the session expire and the server not answer the new authentication, whose time
// limit ends the connection while a CLOSE waits for credits. No goroutine stays.
func TestReauthenticationFailsBeforeCloseIsSent(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				expired := false
				s := protections()[kind]
				s.Grant = func(uint16) uint16 { return 1 }
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					if m.Command == proto.CommandRead {
						expired = true
						c.Refuse(m, proto.StatusNetworkSessionExpired)
						return true
					}
					return expired && m.Command == proto.CommandSessionSetup
				}
				f, err := scripted(t, s, smb.Dialer{NoReconnect: true, Limits: smb.Limits{DialTimeout: time.Second}})
				must(t, err)
				var calls sync.WaitGroup
				calls.Go(func() { f.ReadAt(make([]byte, 1), 0) })
				synctest.Wait()
				if err := f.Close(); !errors.Is(err, smb.ErrConnLost) {
					t.Errorf("%v, want %v", err, smb.ErrConnLost)
				}
				calls.Wait()
				must(t, f.Share().Session().Close())
			})
		})
	}
}

// TestManyContextsEndBeforeCloseIsSent closes many files, and ends the context, while there are no credits: each CLOSE is sent.
func TestManyContextsEndBeforeCloseIsSent(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	const files = 100
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls sync.WaitGroup
				st := withoutCredits(t, protections()[kind], &calls)
				synctest.Wait()
				st.resume()
				calls.Wait()
				var open []*smb.File
				for range files {
					f, err := st.f.Share().Open("file")
					must(t, err)
					open = append(open, f)
				}
				calls.Go(func() { st.f.ReadAt(make([]byte, 1), 0) })
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				for _, f := range open {
					calls.Go(func() { f.WithContext(ctx).Close() })
				}
				synctest.Wait()
				cancel()
				synctest.Wait()
				if n := st.sent.count(proto.CommandClose); n != 0 {
					t.Errorf("%d did not wait", n)
				}
				st.resume()
				calls.Wait()
				synctest.Wait()
				if n := st.sent.count(proto.CommandClose); n != files {
					t.Errorf("%d of %d CLOSE sent", n, files)
				}
			})
		})
	}
}

// sentCommands are the requests that a server has received.
type sentCommands struct {
	mu   sync.Mutex
	list []proto.Command
}

func (s *sentCommands) add(c proto.Command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, c)
}

func (s *sentCommands) count(c proto.Command) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, x := range s.list {
		if x == c {
			n++
		}
	}
	return n
}
