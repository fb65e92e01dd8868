package smb_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// slowChange is a server that carries out one request later than those that come after it, as a server does that works on several at
// once.
type slowChange struct {
	disk memoryDisk

	mu       sync.Mutex
	armed    proto.Command // the next such request is the slow one
	c        *script.Conn
	held     *script.Message
	received []proto.Command
}

func (x *slowChange) hook(c *script.Conn, m *script.Message) bool {
	x.mu.Lock()
	if m.Command != proto.CommandCancel {
		x.received = append(x.received, m.Command)
	}
	hold := x.armed != 0 && m.Command == x.armed
	if hold {
		held := *m
		held.Body = bytes.Clone(m.Body)
		x.c, x.held, x.armed = c, &held, 0
	}
	x.mu.Unlock()
	return hold || x.disk.hook(c, m)
}

// release carries out the slow request, and answers it.
func (x *slowChange) release() {
	if !x.disk.hook(x.c, x.held) {
		x.c.Obey(x.held)
	}
}

// since returns the requests that have been received after the first n.
func (x *slowChange) since(n int) []proto.Command {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.received[n:])
}

// TestCancelledChangeIsNotOvertaken ends the context of a call whose request the server carries out slowly. Calls on the same file
// send nothing before the server has answered it, and a file that it has opened is closed, so that they are not undone or refused because
// of it; calls on other files do.
func TestCancelledChangeIsNotOvertaken(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	old, now := bytes.Repeat([]byte("o"), 3000), bytes.Repeat([]byte("n"), 3000)
	type call struct {
		name string
		slow proto.Command
		run  func(s *smb.Share, f *smb.File) error
	}
	writeAt := func(b []byte) func(*smb.Share, *smb.File) error {
		return func(_ *smb.Share, f *smb.File) error { _, err := f.WriteAt(b, 0); return err }
	}
	writeFile := func(b []byte) func(*smb.Share, *smb.File) error {
		return func(s *smb.Share, _ *smb.File) error { return s.WriteFile("file", b, 0o666) }
	}
	cancelled := []call{
		{"WriteAt", proto.CommandWrite, writeAt(old)},
		{"WriteFile", proto.CommandWrite, writeFile(old)},
		{"Truncate", proto.CommandSetInfo, func(_ *smb.Share, f *smb.File) error { return f.Truncate(1) }},
		{"Share.Truncate", proto.CommandSetInfo, func(s *smb.Share, _ *smb.File) error { return s.Truncate("file", 1) }},
		{"Create", proto.CommandCreate, func(s *smb.Share, _ *smb.File) error { _, err := s.Create("file"); return err }},
		{"Open", proto.CommandCreate, func(s *smb.Share, _ *smb.File) error { _, err := s.Open("file"); return err }},
		{"Rename", proto.CommandSetInfo, func(s *smb.Share, _ *smb.File) error { return s.Rename("other", "FILE") }},
	}
	later := []call{
		{name: "WriteAt", run: writeAt(now)},
		{name: "ReadAt", run: func(_ *smb.Share, f *smb.File) error {
			_, err := f.ReadAt(make([]byte, 1), 0)
			if err == io.EOF { // the cancelled call has truncated the file
				err = nil
			}
			return err
		}},
		{name: "WriteFile", run: writeFile(now)},
		{name: "WriteFile on another mount", run: writeFile(now)},
		{name: "ReadFile", run: func(s *smb.Share, _ *smb.File) error { _, err := s.ReadFile("file"); return err }},
		{name: "Create", run: func(s *smb.Share, _ *smb.File) error {
			f, err := s.Create("file")
			if err != nil {
				return err
			}
			return f.Close()
		}},
		{name: "Rename", run: func(s *smb.Share, _ *smb.File) error { return s.Rename("another", "file") }},
	}
	const (
		answered = iota
		lost
		ended
	)
	for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
		for _, first := range cancelled {
			for _, second := range later {
				for end, name := range []string{"answered", "connection lost", "context of the later call ends"} {
					t.Run(kind+"/"+first.name+"/"+second.name+"/"+name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							var x slowChange
							x.disk.reset(map[string][]byte{"file": old, "other": old, "another": old})
							s := protections()[kind]
							s.Hook = x.hook
							d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}, DialFunc: through(t, s.Dial)}
							session, err := d.Dial(t.Context(), "scripted")
							must(t, err)
							defer session.Close()
							share, err := session.Mount(t.Context(), "share")
							must(t, err)
							f, err := share.Open("file")
							must(t, err)
							laterOn := share
							if strings.HasSuffix(second.name, "another mount") {
								laterOn, err = session.Mount(t.Context(), "SHARE")
								must(t, err)
							}

							ctx, cancel := context.WithCancel(t.Context())
							defer cancel()
							x.armed = first.slow
							failed := make(chan error, 1)
							go func() { failed <- first.run(share.WithContext(ctx), f.WithContext(ctx)) }()
							synctest.Wait()
							cancel()
							if err := <-failed; !errors.Is(err, context.Canceled) {
								t.Fatal(err)
							}
							synctest.Wait()
							seen := len(x.since(0))
							ctx, cancel = context.WithCancel(t.Context())
							defer cancel()
							done := make(chan error, 1)
							go func() { done <- second.run(laterOn.WithContext(ctx), f.WithContext(ctx)) }()
							synctest.Wait()
							if overtook := x.since(seen); len(overtook) > 0 || len(done) > 0 {
								t.Fatalf("%v overtook the cancelled request", overtook)
							}
							_, err = share.Stat("dir")
							must(t, err)
							seen = len(x.since(0))
							switch end {
							case answered:
								x.release()
							case lost:
								x.c.Close()
							case ended:
								cancel()
								if err := <-done; !errors.Is(err, context.Canceled) {
									t.Error(err)
								}
								x.release()
								return
							}
							// A lost Rename is not repeated.
							if err := <-done; err != nil && !(end == lost && second.name == "Rename" && errors.Is(err, smb.ErrConnLost)) {
								t.Error(err)
							}
							if then := x.since(seen); end == answered && first.slow == proto.CommandCreate && then[0] != proto.CommandClose {
								t.Errorf("%v before the file that the cancelled request opened was closed", then)
							}
							if got, _ := x.disk.content("file"); strings.HasPrefix(second.name, "Write") && !bytes.Equal(got, now) {
								t.Error("the cancelled call undid the later one")
							}
						})
					})
				}
			}
		}
	}
}
