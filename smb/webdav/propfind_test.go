package webdav_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
)

// TestPropfindRoundTrips describes a directory of many entries: the number of requests to the SMB server does not depend on theirs.
func TestPropfindRoundTrips(t *testing.T) {
	const entries = 300
	for mode, server := range scriptedModes() {
		t.Run(mode, func(t *testing.T) {
			var requests atomic.Int32
			s := server
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				requests.Add(1)
				switch m.Command {
				case proto.CommandCreate:
					c.Opened(m, nil, func(b []byte) {
						b[56], b[57], b[58], b[59] = byte(proto.AttrDirectory), 0, 0, 0
					})
					return true
				case proto.CommandQueryDirectory:
					if !script.Restarts(m) {
						c.Refuse(m, proto.StatusNoMoreFiles)
						return true
					}
					var list []script.Entry
					for i := range entries {
						list = append(list, script.Entry{Name: fmt.Sprintf("%03d.txt", i), Size: uint64(i)})
					}
					c.List(m, list...)
					return true
				}
				return false
			}
			_, share := scriptedShare(t, &s)
			h := smbdav.Handler(&webdav.Handler{FileSystem: smbdav.New(share), LockSystem: webdav.NewMemLS()})
			requests.Store(0)
			r := httptest.NewRequestWithContext(t.Context(), "PROPFIND", "/d", nil)
			r.Header.Set("Depth", "1")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != 207 || strings.Count(w.Body.String(), "<D:response") != 1+entries || !strings.Contains(w.Body.String(), ">299<") {
				t.Errorf("%d, %.300s", w.Code, w.Body)
			}
			if n := requests.Load(); n > 20 {
				t.Errorf("%d requests for %d entries", n, entries)
			}
		})
	}
}

// unordered is an answer to PROPFIND with its files, and the tags and texts of each, in order: webdav.Handler ranges over a map.
func unordered(answer string) string {
	files := strings.Split(strings.TrimSuffix(answer, "</D:multistatus>"), "<D:response>")
	for i, f := range files {
		tags := strings.Split(f, "<")
		slices.Sort(tags)
		files[i] = strings.Join(tags, "<")
	}
	slices.Sort(files)
	return strings.Join(files, "<D:response>")
}

// TestPropfindSame compares what Handler answers with what webdav.Handler alone does, which asks the server for each entry.
func TestPropfindSame(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			share := mountedBy(t, srv, nil)
			for _, name := range []string{"top.html", "d/one.txt", "d/e/two", "d/e/f/three.jpg"} {
				if err := share.MkdirAll(filepath.Dir(name), 0o777); err != nil {
					t.Fatal(err)
				}
				if err := share.WriteFile(name, []byte(name), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			for from, to := range map[string]string{"link": "top.html", "d/dirlink": "e", "d/dangling": "none"} {
				if err := os.Symlink(to, filepath.Join(srv.Dir, from)); err != nil {
					t.Fatal(err)
				}
			}
			bare := &webdav.Handler{FileSystem: smbdav.New(share), LockSystem: webdav.NewMemLS()}
			for _, body := range []string{"", `<propfind xmlns="DAV:"><propname/></propfind>`,
				`<propfind xmlns="DAV:"><prop><getcontentlength/><getetag/><getcontenttype/><resourcetype/><none/></prop></propfind>`} {
				for _, depth := range []string{"0", "1", "infinity"} {
					for _, name := range []string{"/", "/d", "/d/e/", "/top.html", "/none"} {
						ask := func(h http.Handler) string {
							r := httptest.NewRequestWithContext(t.Context(), "PROPFIND", name, strings.NewReader(body))
							r.Header.Set("Depth", depth)
							w := httptest.NewRecorder()
							h.ServeHTTP(w, r)
							return fmt.Sprint(w.Code, unordered(w.Body.String()))
						}
						if got, want := ask(smbdav.Handler(bare)), ask(bare); got != want {
							t.Errorf("%s, depth %s, %q:\n%.2000s\nwant\n%.2000s", name, depth, body, got, want)
						}
					}
				}
			}
		})
	}
}

// propfind is what Handler answers to a PROPFIND of /d and its entries.
func propfind(t *testing.T, files webdav.FileSystem) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "PROPFIND", "/d", nil)
	r.Header.Set("Depth", "1")
	w := httptest.NewRecorder()
	smbdav.Handler(&webdav.Handler{FileSystem: files, LockSystem: webdav.NewMemLS()}).ServeHTTP(w, r)
	return w
}

// directories answers m when it opens or lists a directory. Each has the entries.
func directories(c *script.Conn, m *script.Message, entries ...script.Entry) bool {
	switch {
	case m.Command == proto.CommandCreate:
		c.Opened(m, nil, func(b []byte) { b[56], b[57], b[58], b[59] = byte(proto.AttrDirectory), 0, 0, 0 })
	case m.Command == proto.CommandQueryDirectory && script.Restarts(m):
		c.List(m, entries...)
	case m.Command == proto.CommandQueryDirectory:
		c.Refuse(m, proto.StatusNoMoreFiles)
	default:
		return false
	}
	return true
}

// TestPropfindMountPoint: a mount point, which is listed as what it is, is described as the directory that the server opens.
func TestPropfindMountPoint(t *testing.T) {
	for mode, server := range scriptedModes() {
		t.Run(mode, func(t *testing.T) {
			s := server
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				return directories(c, m, script.Entry{Name: "mount", Attributes: proto.AttrDirectory | proto.AttrReparsePoint, Tag: proto.ReparseTagMountPoint})
			}
			_, share := scriptedShare(t, &s)
			if w := propfind(t, smbdav.New(share)); w.Code != 207 || !strings.Contains(w.Body.String(), "<D:href>/d/mount/</D:href>") {
				t.Errorf("%d, %s", w.Code, w.Body)
			}
		})
	}
}

// TestPropfindDenied: the description of a directory that may not be read is well-formed.
func TestPropfindDenied(t *testing.T) {
	for mode, server := range scriptedModes() {
		t.Run(mode, func(t *testing.T) {
			s := server
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				if m.Command == proto.CommandCreate && m.Body[24]&byte(proto.AccessReadData) != 0 {
					c.Refuse(m, proto.StatusAccessDenied)
					return true
				}
				return directories(c, m)
			}
			_, share := scriptedShare(t, &s)
			w := propfind(t, smbdav.New(share))
			if body := w.Body.String(); w.Code != 207 || strings.Count(body, "<D:response>") != 1 || !strings.HasSuffix(body, "</D:multistatus>") {
				t.Errorf("%d, %s", w.Code, body)
			}
		})
	}
}

// TestPropfindStalled: PROPFIND ends when the server does not answer the listing.
func TestPropfindStalled(t *testing.T) {
	for mode, server := range scriptedModes() {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stalled atomic.Bool
				s := server
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					if m.Command == proto.CommandCreate && m.Body[24]&byte(proto.AccessReadData) != 0 {
						stalled.Store(true)
					}
					return stalled.Load() && m.Command != proto.CommandEcho || directories(c, m)
				}
				session, share := scriptedShare(t, &s)
				stop := time.AfterFunc(24*time.Hour, func() { session.Close() })
				defer stop.Stop()
				begun := time.Now()
				propfind(t, smbdav.New(share))
				if took := time.Since(begun); !stalled.Load() || took > 4*time.Minute {
					t.Errorf("%v", took)
				}
			})
		})
	}
}

// overlay is a file system that has what the one below has, too.
type overlay struct {
	webdav.FileSystem
	below webdav.FileSystem
}

func (o *overlay) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if fi, err := o.FileSystem.Stat(ctx, name); !os.IsNotExist(err) {
		return fi, err
	}
	return o.below.Stat(ctx, name)
}

func (o *overlay) OpenFile(ctx context.Context, name string, flag int, perm os.FileMode) (webdav.File, error) {
	if f, err := o.FileSystem.OpenFile(ctx, name, flag, perm); !os.IsNotExist(err) {
		return f, err
	}
	return o.below.OpenFile(ctx, name, flag, perm)
}

// TestPropfindOverlay describes what the lower of two shares has, which are served as one.
func TestPropfindOverlay(t *testing.T) {
	for mode, server := range scriptedModes() {
		t.Run(mode, func(t *testing.T) {
			upper, lower := server, server
			upper.Hook = func(c *script.Conn, m *script.Message) bool {
				if m.Command == proto.CommandCreate {
					c.Refuse(m, proto.StatusObjectNameNotFound)
					return true
				}
				return directories(c, m)
			}
			lower.Hook = func(c *script.Conn, m *script.Message) bool { return directories(c, m, script.Entry{Name: "file"}) }
			_, above := scriptedShare(t, &upper)
			_, below := scriptedShare(t, &lower)
			w := propfind(t, &overlay{smbdav.New(above), smbdav.New(below)})
			if w.Code != 207 || !strings.Contains(w.Body.String(), "<D:href>/d/file</D:href>") {
				t.Errorf("%d, %s", w.Code, w.Body)
			}
		})
	}
}
