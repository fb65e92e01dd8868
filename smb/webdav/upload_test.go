package webdav_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
	"github.com/tarn-go/tarn/tarntest"
)

// mounted mounts the server's share.
func mounted(t *testing.T, srv *rig.Server) *smb.Share { return mountedBy(t, srv, nil) }

// mountedBy mounts the share over a connection that dial makes, in a session of its own; nil: the Dialer does.
func mountedBy(t *testing.T, srv *rig.Server, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *smb.Share {
	t.Helper()
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, Pool: tarntest.NewPool(t), DialFunc: dial}
	s, err := d.Dial(t.Context(), srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	share, err := s.Mount(t.Context(), srv.Share)
	if err != nil {
		t.Fatal(err)
	}
	return share
}

// names lists the server's directory.
func names(t *testing.T, srv *rig.Server) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(srv.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestInterruptedPut ends the client's connection in the middle of a PUT: the file stays as it was, or is not there.
func TestInterruptedPut(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			dav := smbdav.Handler(&webdav.Handler{FileSystem: smbdav.New(mounted(t, srv)), LockSystem: webdav.NewMemLS()})
			served := make(chan struct{}, 1)
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() { served <- struct{}{} }()
				dav.ServeHTTP(w, r)
			}))
			defer h.Close()
			old := filepath.Join(srv.Dir, "old")
			if err := errors.Join(os.WriteFile(old, []byte("old content"), 0o666), srv.Own(old)); err != nil {
				t.Fatal(err)
			}
			data := bytes.Repeat([]byte("x"), 3<<20)
			for name, framing := range map[string]struct{ header, begin string }{
				"length":  {fmt.Sprintf("Content-Length: %d\r\n\r\n", len(data)+1), ""},
				"chunked": {"Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n", len(data)+1)},
			} {
				for _, reset := range []bool{false, true} {
					for _, target := range []string{"old", "new"} {
						c, err := net.Dial("tcp", h.Listener.Addr().String())
						if err != nil {
							t.Fatal(err)
						}
						fmt.Fprintf(c, "PUT /%s HTTP/1.1\r\nHost: h\r\n%s%s", target, framing.header, framing.begin)
						if _, err := c.Write(data); err != nil {
							t.Fatal(err)
						}
						if reset {
							c.(*net.TCPConn).SetLinger(0)
						}
						c.Close()
						<-served
						if list := names(t, srv); len(list) != 1 || list[0] != "old" {
							t.Errorf("%s of %s, reset %v: %q", name, target, reset, list)
							os.Remove(filepath.Join(srv.Dir, "new"))
						}
						if got, err := os.ReadFile(old); string(got) != "old content" {
							t.Errorf("%s of %s, reset %v: it has %d bytes, %v", name, target, reset, len(got), err)
						}
					}
				}
			}
			if status, _ := request(t, "PUT", h.URL+"/old", string(data)); status != 201 {
				t.Errorf("status %d", status)
			}
			<-served
			if got, err := os.ReadFile(old); !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// TestFailedUpload has PUT and COPY fail after they have begun to write: the destination stays as it was.
func TestFailedUpload(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			files := &failing{FileSystem: smbdav.New(mounted(t, srv))}
			var logged error
			h := httptest.NewServer(smbdav.Handler(&webdav.Handler{FileSystem: files, LockSystem: webdav.NewMemLS(),
				Logger: func(_ *http.Request, err error) { logged = err }}))
			defer h.Close()
			data := strings.Repeat("0123456789", 300_000)
			request(t, "PUT", h.URL+"/src", data)
			request(t, "PUT", h.URL+"/old", "old content")
			for _, c := range []struct {
				method, fails string
				status        int
			}{
				{"PUT", "write", 405}, {"PUT", "close", 405}, {"PUT", "rename", 500},
				{"COPY", "read", 500}, {"COPY", "write", 500}, {"COPY", "close", 500}, {"COPY", "rename", 500},
			} {
				for _, name := range []string{"old", "new"} {
					files.fails, logged = c.fails, nil
					var status int
					var body string
					if c.method == "PUT" {
						status, body = request(t, "PUT", h.URL+"/"+name, data)
					} else {
						status, body = request(t, "COPY", h.URL+"/src", "", "Destination", h.URL+"/"+name, "Overwrite", "T")
					}
					files.fails = ""
					if status != c.status || strings.Contains(body, "Created") || !errors.Is(logged, errFails) {
						t.Errorf("%s to %s, %s fails: %d, %q, %v", c.method, name, c.fails, status, body, logged)
					}
					if got, err := os.ReadFile(filepath.Join(srv.Dir, "old")); string(got) != "old content" {
						t.Errorf("%s to %s, %s fails: it has %d bytes, %v", c.method, name, c.fails, len(got), err)
					}
					if list := names(t, srv); len(list) != 2 {
						t.Errorf("%s to %s, %s fails: %q", c.method, name, c.fails, list)
					}
				}
			}
		})
	}
}

// failing is a file system of which an operation fails, if it is one of a large file.
type failing struct {
	webdav.FileSystem
	fails string
}

var errFails = errors.New("it fails")

func (f *failing) Rename(ctx context.Context, from, to string) error {
	if f.fails == "rename" {
		return errFails
	}
	return f.FileSystem.Rename(ctx, from, to)
}

func (f *failing) OpenFile(ctx context.Context, name string, flag int, perm os.FileMode) (webdav.File, error) {
	opened, err := f.FileSystem.OpenFile(ctx, name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &failingFile{opened, f.fails}, nil
}

type failingFile struct {
	webdav.File
	fails string
}

func (f *failingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p[:min(len(p), 100_000)])
	if f.fails == "read" {
		err = errFails
	}
	return n, err
}

func (f *failingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if f.fails == "write" {
		err = errFails
	}
	return n, err
}

func (f *failingFile) Close() error {
	err := f.File.Close()
	if f.fails == "close" {
		err = errFails
	}
	return err
}

// TestUploadInPlace puts and copies files where the server refuses a new file in the directory, or to replace the file because it is
// open.
func TestUploadInPlace(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			share := mounted(t, srv)
			h := httptest.NewServer(smbdav.Handler(&webdav.Handler{FileSystem: smbdav.New(share), LockSystem: webdav.NewMemLS()}))
			defer h.Close()
			data := strings.Repeat("0123456789", 300_000)
			request(t, "PUT", h.URL+"/src", data)
			request(t, "MKCOL", h.URL+"/closed", "")
			request(t, "PUT", h.URL+"/closed/file", "")
			request(t, "PUT", h.URL+"/open", strings.Repeat("longer", 1<<20))
			if err := os.Chmod(filepath.Join(srv.Dir, "closed"), 0o555); err != nil {
				t.Fatal(err)
			}
			f, err := share.Open("open")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, name := range []string{"closed/file", "open"} {
				for method, status := range map[string]int{"PUT": 201, "COPY": 204} {
					if err := os.Truncate(filepath.Join(srv.Dir, name), 7); err != nil {
						t.Fatal(err)
					}
					var got int
					if method == "PUT" {
						got, _ = request(t, method, h.URL+"/"+name, data)
					} else {
						got, _ = request(t, method, h.URL+"/src", "", "Destination", h.URL+"/"+name, "Overwrite", "T")
					}
					content, err := os.ReadFile(filepath.Join(srv.Dir, name))
					if got != status || string(content) != data {
						t.Errorf("%s of %s: status %d, %d bytes, %v", method, name, got, len(content), err)
					}
				}
			}
			if list := names(t, srv); len(list) != 3 {
				t.Errorf("%q", list)
			}
			// A directory is no file to replace.
			if status, _ := request(t, "PUT", h.URL+"/closed", data); status/100 != 4 {
				t.Errorf("PUT of a directory: %d", status)
			}
			if _, err := io.Copy(io.Discard, f); err != nil {
				t.Error(err)
			}
		})
	}
}
