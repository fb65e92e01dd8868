package rclone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rclone/rclone/fs"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// TestChangesAcrossLosses cuts the connection after each number of bytes of the answers to a change, in steps: whether or not the server
// has made it, the call succeeds and it is made once.
func TestChangesAcrossLosses(t *testing.T) {
	f, srv, dir := newRemote(t, map[string]string{"CONNECTIONS": "1"})
	l := rigtest.Relay(t, srv.Addr)
	links := make(chan *faultnet.Link, 1)
	l.Faults(func(link *faultnet.Link) {
		select {
		case <-links:
		default:
		}
		links <- link
	})
	f.conns.close()
	f.conns.dialer.DialFunc = l.Dial
	for _, change := range []struct {
		name         string
		make         func(n int) error
		before, then string // what is there
	}{
		{"move", func(n int) error {
			o, err := f.NewObject(t.Context(), name(n, "a"))
			if err != nil {
				return err
			}
			_, err = f.Move(t.Context(), o, name(n, "b"))
			return err
		}, "a", "b"},
		{"move onto a file", func(n int) error {
			o, err := f.NewObject(t.Context(), name(n, "a"))
			if err != nil {
				return err
			}
			_, err = f.Move(t.Context(), o, name(n, "b"))
			return err
		}, "a b", "b"},
		{"move to another case", func(n int) error {
			o, err := f.NewObject(t.Context(), name(n, "a"))
			if err != nil {
				return err
			}
			_, err = f.Move(t.Context(), o, name(n, "A"))
			return err
		}, "a", "A"},
		{"remove", func(n int) error {
			o, err := f.NewObject(t.Context(), name(n, "a"))
			if err != nil {
				return err
			}
			return o.Remove(t.Context())
		}, "a", ""},
		{"rmdir", func(n int) error { return f.Rmdir(t.Context(), name(n, "d")) }, "d", ""},
		{"purge", func(n int) error { return f.Purge(t.Context(), name(n, "d")) }, "d d/a d/b", ""},
		{"mkdir", func(n int) error { return f.Mkdir(t.Context(), name(n, "d")) }, "", "d"},
		{"move directory", func(n int) error { return f.DirMove(t.Context(), f, name(n, "d"), name(n, "e")) }, "d", "e"},
	} {
		t.Run(change.name, func(t *testing.T) {
			put(t, f, "connected", "") // there is a connection
			const step, last = 100, 3000
			for n := 0; n < last; n += step {
				if err := f.Mkdir(t.Context(), fmt.Sprint(n)); err != nil {
					t.Fatal(err)
				}
				for _, s := range strings.Fields(change.before) {
					if s == "d" {
						if err := f.Mkdir(t.Context(), name(n, s)); err != nil {
							t.Fatal(err)
						}
						continue
					}
					put(t, f, name(n, s), s)
				}
				link := <-links
				before := link.ToClient.Passed()
				link.ToClient.CutAfter(before+int64(n), faultnet.RST)
				if err := change.make(n); err != nil {
					t.Errorf("cut after %d bytes: %v", n, err)
				}
				if got := names(t, filepath.Join(dir, fmt.Sprint(n))); got != change.then {
					t.Errorf("cut after %d bytes: there is %q", n, got)
				}
				if change.then == "b" {
					if b, err := os.ReadFile(filepath.Join(dir, name(n, "b"))); err != nil || string(b) != "a" {
						t.Errorf("cut after %d bytes: %q, %v", n, b, err)
					}
				}
				link.ToClient.CutAfter(1<<40, faultnet.RST)
				select {
				case links <- link: // not cut
				default:
				}
				if err := f.Purge(t.Context(), fmt.Sprint(n)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func name(n int, file string) string { return fmt.Sprintf("%d/%s", n, file) }

// TestShutdownEndsDial closes the connections while one is made with a server that does not answer.
func TestShutdownEndsDial(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := newConnections(&smb.Dialer{Initiator: smb.NTLM{User: "u", Password: "p"}}, silent.Addr().String(), 2, 0)
	failed := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.get(context.WithoutCancel(t.Context()), "share")
			failed <- err
		}()
	}
	for range 2 {
		accepted, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
	}
	c.close()
	for range 2 {
		if err := <-failed; !errors.Is(err, smb.ErrClosed) {
			t.Error(err)
		}
	}
	if n := c.inUse(); n != 0 {
		t.Errorf("%d leases", n)
	}
}

// unknown is a watcher whose first Nexts have these errors.
type unknown struct {
	watcher
	errs []error
}

func (u *unknown) Next(ctx context.Context) ([]smb.Event, error) {
	if len(u.errs) > 0 {
		err := u.errs[0]
		u.errs = u.errs[1:]
		return nil, err
	}
	return u.watcher.Next(ctx)
}

// TestUnknownChanges has changes that the server could not say: the root may have changed, and the same watch reports the next ones.
func TestUnknownChanges(t *testing.T) {
	f, _, _ := newRemote(t, nil)
	put(t, f, "a", "content")
	w, err := f.openWatch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.watcher = &unknown{w.watcher, []error{fmt.Errorf("watch: %w", smb.ErrName), smb.ErrMissed}}
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- w.report(ctx, func(name string, kind fs.EntryType) { changed <- name })
	}()
	for range 2 {
		if name := <-changed; name != "" {
			t.Errorf("%q changed", name)
		}
	}
	for n := 0; len(changed) == 0; n++ { // until the server watches
		put(t, f, "b", fmt.Sprint(n))
	}
	if name := <-changed; name != "b" {
		t.Errorf("%q changed", name)
	}
	cancel()
	<-done
	if n := f.conns.inUse(); n != 0 {
		t.Errorf("%d leases", n)
	}
}

// TestFirstSessionRefused has a server refuse the first connections of a remote, as one does that is started again.
func TestFirstSessionRefused(t *testing.T) {
	f, _, _ := newRemote(t, nil)
	put(t, f, "file", "content")
	f.conns.close()
	refused := 0
	f.conns.dialer.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if refused++; refused <= 3 {
			return nil, syscall.ECONNREFUSED
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	if _, err := f.NewObject(t.Context(), "file"); err != nil {
		t.Errorf("refused %d times: %v", refused, err)
	}
	f.conns.close()
	refused = 0
	ctx, cancel := context.WithCancel(t.Context())
	f.conns.dialer.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		cancel()
		return nil, syscall.ECONNREFUSED
	}
	if _, err := f.NewObject(ctx, "file"); err == nil {
		t.Error("there is no server")
	}
}

// TestReaderOfRestartedServer closes a reader whose file the server does not have open any more.
func TestReaderOfRestartedServer(t *testing.T) {
	f, srv, _ := newRemote(t, nil)
	r, err := put(t, f, "file", "content").Open(t.Context())
	must(t, err)
	srv.Kill()
	must(t, srv.Start())
	must(t, r.Close())
}
