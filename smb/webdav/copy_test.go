package webdav_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
)

// countingConn counts what is sent and received.
type countingConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// mountCounted mounts srv's share in a session of its own, and counts in travelled what its connection carries.
func mountCounted(t *testing.T, srv *rig.Server, travelled *atomic.Int64) *smb.Share {
	t.Helper()
	return mountedBy(t, srv, func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return countingConn{c, travelled}, err
	})
}

// writeSparse makes a file with a hole on the server's disk, and returns its content.
func writeSparse(t *testing.T, srv *rig.Server, name string) []byte {
	t.Helper()
	content := make([]byte, 16<<20)
	head, tail := content[:1<<20], content[15<<20:]
	rand.Read(head)
	rand.Read(tail)
	f, err := os.OpenFile(filepath.Join(srv.Dir, name), os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Chmod(f.Name(), 0o666); err != nil {
		t.Fatal(err)
	}
	for off, p := range map[int64][]byte{0: head, 15 << 20: tail} {
		if _, err := f.WriteAt(p, off); err != nil {
			t.Fatal(err)
		}
	}
	return content
}

func markSparse(t *testing.T, share *smb.Share, name string) {
	t.Helper()
	f, err := share.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.SetSparse(); err != nil {
		t.Fatal(err)
	}
}

// TestCopyOnServer copies a file with a hole, by Handler and by webdav.Handler alone: the data does not pass through the client, and the
// hole stays.
func TestCopyOnServer(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			content := writeSparse(t, srv, "from")
			var travelled atomic.Int64
			share := mountCounted(t, srv, &travelled)
			markSparse(t, share, "from")
			bare := &webdav.Handler{FileSystem: smbdav.New(share), LockSystem: webdav.NewMemLS()}
			for name, handler := range map[string]http.Handler{"kept": smbdav.Handler(bare), "bare": bare} {
				t.Run(name, func(t *testing.T) {
					h := httptest.NewServer(handler)
					defer h.Close()
					travelled.Store(0)
					status, body := request(t, "COPY", h.URL+"/from", "", "Destination", h.URL+"/"+name)
					if status != 201 {
						t.Fatalf("%d, %.200q", status, body)
					}
					if n := travelled.Load(); n > 128<<10 {
						t.Errorf("%d bytes passed through the client", n)
					}
					got, err := os.ReadFile(filepath.Join(srv.Dir, name))
					if err != nil || !bytes.Equal(got, content) {
						t.Errorf("the copy has other content, %v", err)
					}
					f, err := share.Open(name)
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					var allocated int64
					ranges, err := f.AllocatedRanges(0, int64(len(content)))
					for _, r := range ranges {
						allocated += r.Length
					}
					if err != nil || allocated > 3<<20 {
						t.Errorf("%d bytes are allocated, %v", allocated, err)
					}
				})
			}
		})
	}
}

// TestCopyThroughClient copies what the server cannot copy, or is not to copy, as package io describes it: between two sessions,
// from and to a position, and to a file with other content behind.
func TestCopyThroughClient(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			content := writeSparse(t, srv, "from")
			var travelled atomic.Int64
			one, two := smbdav.New(mountCounted(t, srv, &travelled)), smbdav.New(mountCounted(t, srv, &travelled))
			for _, c := range []struct {
				name     string
				files    webdav.FileSystem // of the destination
				flag     int
				from, to int64
				want     []byte
			}{
				{"emptied", one, os.O_TRUNC, 0, 0, content},
				{"other session", two, os.O_TRUNC, 0, 0, content},
				{"part", one, os.O_TRUNC, 1000, 0, content[1000:]},
				{"behind", one, os.O_TRUNC, 0, 5, append([]byte("other"), content...)},
				{"longer", one, 0, 0, 0, append(bytes.Clone(content), "old"...)},
			} {
				t.Run(c.name, func(t *testing.T) {
					old := append(make([]byte, len(content)), "old"...)
					if err := os.WriteFile(filepath.Join(srv.Dir, "to"), old, 0o666); err != nil {
						t.Fatal(err)
					}
					if err := os.Chmod(filepath.Join(srv.Dir, "to"), 0o666); err != nil {
						t.Fatal(err)
					}
					from, err := one.OpenFile(t.Context(), "/from", os.O_RDONLY, 0)
					if err != nil {
						t.Fatal(err)
					}
					defer from.Close()
					to, err := c.files.OpenFile(t.Context(), "/to", os.O_RDWR|c.flag, 0o666)
					if err != nil {
						t.Fatal(err)
					}
					defer to.Close()
					if _, err := from.Seek(c.from, io.SeekStart); err != nil {
						t.Fatal(err)
					}
					if _, err := to.Write([]byte("other")[:c.to]); err != nil {
						t.Fatal(err)
					}
					n, err := io.Copy(to, from)
					if n != int64(len(content))-c.from || err != nil {
						t.Errorf("%d bytes, %v", n, err)
					}
					for name, f := range map[string]io.Seeker{"source": from, "destination": to} {
						want := map[string]int64{"source": int64(len(content)), "destination": c.to + n}[name]
						if at, err := f.Seek(0, io.SeekCurrent); at != want || err != nil {
							t.Errorf("position of the %s: %d, want %d, %v", name, at, want, err)
						}
					}
					if err := to.Close(); err != nil {
						t.Error(err)
					}
					got, err := os.ReadFile(filepath.Join(srv.Dir, "to"))
					if err != nil || !bytes.Equal(got, c.want) {
						t.Errorf("%d bytes of other content, %v", len(got), err)
					}
				})
			}
		})
	}
}
