package smb_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestRemoveAllGoesOn has RemoveAll meet a file that cannot be removed: it removes the others, and returns the error.
func TestRemoveAllGoesOn(t *testing.T) {
	eachMode(t, rig.Config{}, testRemoveAllGoesOn)
}

func testRemoveAllGoesOn(t *testing.T, srv *rig.Server) {
	sess := dial(t, srv, smb.Dialer{})
	share, err := sess.Mount(t.Context(), srv.Share)
	must(t, err)
	for _, dir := range []string{"d", "d/a", "d/m", "d/z"} {
		must(t, share.Mkdir(dir, 0o777))
		must(t, share.WriteFile(dir+"/file", []byte("x"), 0o666))
	}
	kept := filepath.Join(srv.Dir, "d", "m")
	must(t, os.Chmod(kept, 0o555)) // nothing can be removed from it
	t.Cleanup(func() { os.Chmod(kept, 0o755) })
	err = share.RemoveAll("d")
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "file") {
		t.Errorf("%v", err)
	}
	var left []string
	must(t, fs.WalkDir(os.DirFS(srv.Dir), "d", func(name string, _ fs.DirEntry, err error) error {
		left = append(left, name)
		return err
	}))
	if got := strings.Join(left, " "); got != "d d/m d/m/file" {
		t.Errorf("left: %s", got)
	}
	must(t, os.WriteFile(filepath.Join(kept, "other"), nil, 0o666))
	var named []string
	err = share.RemoveAllFunc("d", func(err error) {
		var pe *fs.PathError
		if !errors.As(err, &pe) || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v", err)
			return
		}
		named = append(named, pe.Path)
	})
	slices.Sort(named)
	if got := strings.Join(named, " "); got != "d/m/file d/m/other" || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("failed was called for %q; %v", got, err)
	}
	for _, name := range []string{"", "none"} {
		var called error
		err := share.RemoveAllFunc(name, func(err error) { called = err })
		if err != called || (err == nil) != (name == "none") {
			t.Errorf("%q: %v, and failed was called with %v", name, err, called)
		}
	}
}

// removedDirectory is a directory d of a scripted server, whose hook answers RemoveAll. It cannot be removed before its entries.
type removedDirectory struct {
	t                *testing.T
	replies, entries int // that many replies, of that many entries each
	// remove may answer the removal of an entry; otherwise it succeeds.
	remove func(c *script.Conn) (answered bool)

	last            string // the name opened last
	listed, removed int
}

func (d *removedDirectory) hook(c *script.Conn, m *script.Message) bool {
	switch m.Command {
	case proto.CommandCreate:
		d.last = script.NameOf(m)
	case proto.CommandQueryDirectory:
		if d.removed != 0 {
			d.t.Errorf("%d entries were removed before reply %d of the listing", d.removed, d.listed+1)
		}
		if script.Restarts(m) {
			d.listed = 0
		}
		if d.listed == d.replies {
			c.Refuse(m, proto.StatusNoMoreFiles)
			return true
		}
		var list []script.Entry
		for i := range d.entries {
			list = append(list, script.Entry{Name: fmt.Sprint("f", d.listed*d.entries+i)})
		}
		c.List(m, list...)
		d.listed++
		return true
	case proto.CommandSetInfo:
		if d.last == "d" {
			if d.removed < d.replies*d.entries {
				c.Refuse(m, proto.StatusDirectoryNotEmpty)
				return true
			}
		} else if d.remove != nil && d.remove(c) {
			return true
		}
		d.removed++
	}
	return false
}

// TestRemoveAllInFlight has a server answer the removals of files only when many of them wait: RemoveAll keeps them in flight, those of
// one directory and those of several.
func TestRemoveAllInFlight(t *testing.T) {
	const most = 48
	for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
		for _, dirs := range []int{1, 12} {
			t.Run(fmt.Sprint(kind, "/", dirs, " directories"), func(t *testing.T) {
				s := protections()[kind]
				batched(s, proto.CommandSetInfo, most)
				hold, left, removed := s.Hook, map[string]int{"d": dirs}, atomic.Int32{}
				for i := range dirs {
					left[fmt.Sprintf(`d\%02d`, i)] = most / dirs
				}
				ids := map[string]uint64{}
				var name string // opened last
				entries := dirs // of the directory that is listed next: d first
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					switch m.Command {
					case proto.CommandCreate:
						name = script.NameOf(m)
						if ids[name] == 0 {
							ids[name] = uint64(len(ids) + 1)
						}
						c.Opened(m, diskIDContext(ids[name]), func([]byte) {})
						return true
					case proto.CommandQueryDirectory:
						if !script.Restarts(m) {
							c.Refuse(m, proto.StatusNoMoreFiles)
							return true
						}
						var list []script.Entry
						for i := range entries {
							list = append(list, script.Entry{Name: fmt.Sprintf("%02d", i)})
						}
						entries = most / dirs
						c.List(m, list...)
						return true
					case proto.CommandSetInfo:
						if left[name] > 0 {
							c.Refuse(m, proto.StatusDirectoryNotEmpty)
							return true
						}
						removed.Add(1)
						if dir := strings.LastIndexByte(name, '\\'); dir > 0 {
							left[name[:dir]]--
						}
						return hold(c, m)
					}
					return false
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if err := f.Share().WithContext(ctx).RemoveAll("d"); err != nil {
					t.Errorf("%v, after %d removals", err, removed.Load())
				}
				if n := int(removed.Load()); n != 1+dirs+most {
					t.Errorf("%d removed", n)
				}
			})
		}
	}
}

// TestRemoveAllListsFirst has RemoveAll remove a directory whose listing comes in several replies: nothing is removed before the
// last of them has come, since servers lose their position in a directory that changes.
func TestRemoveAllListsFirst(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		d := removedDirectory{t: t, replies: 5, entries: 1}
		s.Hook = d.hook
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		if err := f.Share().RemoveAll("d"); err != nil || d.listed != d.replies || d.removed != d.replies+1 {
			t.Errorf("%v, %d listed, %d removed", err, d.listed, d.removed)
		}
	})
}

// TestRemoveAllCancelled ends the context while a directory is removed: entries of which no request is in flight are not tried.
func TestRemoveAllCancelled(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var tried atomic.Int32
		d := removedDirectory{t: t, replies: 1, entries: 200, remove: func(*script.Conn) bool {
			tried.Add(1)
			cancel() // and no reply
			return true
		}}
		s.Hook = d.hook
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		var failures int
		err = f.Share().WithContext(ctx).RemoveAllFunc("d", func(error) { failures++ })
		if n := tried.Load(); !errors.Is(err, context.Canceled) || failures != 1 || n > 64 {
			t.Errorf("%v, %d failures, %d tried", err, failures, n)
		}
	})
}

// TestRemoveAllServerGone has the server go away, and refuse connections, while a directory is removed: RemoveAll does not wait for
// it again for each of the other entries.
func TestRemoveAllServerGone(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		var gone atomic.Bool
		var refused atomic.Int32
		dir := removedDirectory{t: t, replies: 1, entries: 200, remove: func(c *script.Conn) bool {
			gone.Store(true)
			c.Close()
			return true
		}}
		s.Hook = dir.hook
		dial := through(t, s.Dial)
		d := smb.Dialer{Limits: smb.Limits{RedialTimeout: -1}, DialFunc: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone.Load() {
				refused.Add(1)
				return nil, syscall.ECONNREFUSED
			}
			return dial(ctx, network, addr)
		}}
		f, err := scripted(t, s, d)
		must(t, err)
		// Removals in flight may have taken effect, and are not repeated; one that is begun later finds that the server is gone.
		if err := f.Share().RemoveAll("d"); !errors.Is(err, smb.ErrConnLost) || refused.Load() > 64 {
			t.Errorf("%v, %d attempts to connect", err, refused.Load())
		}
	})
}

// TestRemoveAllBound removes directories that have, together, more entries than RemoveAll may remember, and one that has by itself.
func TestRemoveAllBound(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		sess := dial(t, srv, smb.Dialer{Limits: smb.Limits{MaxEntries: 100}})
		share, err := sess.Mount(t.Context(), srv.Share)
		must(t, err)
		fill := func(dir string, files int) {
			must(t, share.MkdirAll(dir, 0o777))
			for i := range files {
				must(t, share.WriteFile(fmt.Sprint(dir, "/", i), nil, 0o666))
			}
		}
		for i := range 5 {
			fill(fmt.Sprint("together/", i, "/below"), 80)
		}
		if err := share.RemoveAll("together"); err != nil {
			t.Error(err)
		}
		fill("alone", 101)
		if err := share.RemoveAll("alone"); !errors.Is(err, smb.ErrTooMany) {
			t.Error(err)
		}
		if left, err := share.ReadDir("alone"); len(left) != 1 || err != nil {
			t.Errorf("%d left, %v", len(left), err)
		}
	})
}
