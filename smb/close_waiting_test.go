package smb_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestContextEndsBeforeCloseIsSent ends a context while File.Close or Share.Unmount waits, for credits or for the goroutine that is
// writing: CLOSE and TREE_DISCONNECT are sent nevertheless, or the server would keep the file open.
func TestContextEndsBeforeCloseIsSent(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, wait := range []string{"for credits", "for the writer"} {
		for _, kind := range kinds() {
			for _, command := range []proto.Command{proto.CommandClose, proto.CommandTreeDisconnect} {
				t.Run(wait+"/"+kind+"/"+commandName(command), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						if wait == "for credits" {
							endWithoutCredits(t, protections()[kind], command)
						} else {
							endWithoutToken(t, protections()[kind], command)
						}
					})
				})
			}
		}
	}
}

func commandName(command proto.Command) string {
	if command == proto.CommandClose {
		return "Close"
	}
	return "Unmount"
}

// endWithoutCredits has a READ use the connection's only credit while the context ends.
func endWithoutCredits(t *testing.T, s *script.Server, command proto.Command) {
	var sent sentCommands
	var live *script.Conn
	var held script.Message
	s.Grant = func(uint16) uint16 { return 1 }
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		sent.add(m.Command)
		if m.Command == proto.CommandRead {
			live, held = c, *m
			held.Body = nil // of the connection's next frame
			return true
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	var calls sync.WaitGroup
	calls.Go(func() { f.ReadAt(make([]byte, 1), 0) })
	synctest.Wait()
	if live == nil {
		t.Fatal("READ was not sent")
	}
	endWhileWaiting(t, f, command, &sent, func() { live.Refuse(&held, proto.StatusEndOfFile) })
	calls.Wait()
}

// endWithoutToken has the server read nothing, and a WRITE wait for it with the right to write, while the context ends.
func endWithoutToken(t *testing.T, s *script.Server, command proto.Command) {
	var sent sentCommands
	resume := make(chan struct{})
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		sent.add(m.Command)
		if m.Command == proto.CommandRead {
			<-resume
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	var calls sync.WaitGroup
	calls.Go(func() { f.ReadAt(make([]byte, 1), 0) })
	synctest.Wait()
	calls.Go(func() { f.WriteAt(make([]byte, 1), 0) })
	endWhileWaiting(t, f, command, &sent, func() { close(resume) })
	calls.Wait()
}

// endWhileWaiting closes the file or unmounts its share, ends the context while that waits, and then calls resume.
func endWhileWaiting(t *testing.T, f *smb.File, command proto.Command, sent *sentCommands, resume func()) {
	t.Helper()
	synctest.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		if command == proto.CommandClose {
			ended <- f.WithContext(ctx).Close()
		} else {
			ended <- f.Share().WithContext(ctx).Unmount()
		}
	}()
	synctest.Wait()
	if sent.has(command) {
		t.Error("the request did not wait")
	}
	cancel()
	synctest.Wait()
	resume()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	synctest.Wait()
	if !sent.has(command) {
		t.Error("the request was not sent")
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

func (s *sentCommands) has(c proto.Command) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.list, c)
}
