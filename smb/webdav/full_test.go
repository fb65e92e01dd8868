package webdav_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
)

// readOnly is r without its other methods.
func readOnly(r *bytes.Reader) io.Reader { return struct{ io.Reader }{r} }

// withWriteTo is r, whose WriteTo io.Copy calls, and that the file's Write.
func withWriteTo(r *bytes.Reader) io.Reader { return r }

// TestNoRoom uploads to a server whose disk, or the user's quota, is full: the answer is 507 (RFC 4918 section 11.5), not the 405 or 500
// of webdav.Handler. Other failures keep their status.
func TestNoRoom(t *testing.T) {
	for mode, server := range scriptedModes() {
		for name, c := range map[string]struct {
			method  string
			body    func(*bytes.Reader) io.Reader
			refused proto.Command
			with    proto.Status
			status  int
		}{
			"PUT, disk":            {"PUT", readOnly, proto.CommandWrite, proto.StatusDiskFull, http.StatusInsufficientStorage},
			"PUT, quota":           {"PUT", readOnly, proto.CommandWrite, proto.StatusQuotaExceeded, http.StatusInsufficientStorage},
			"PUT, other":           {"PUT", readOnly, proto.CommandWrite, proto.StatusFileClosed, http.StatusMethodNotAllowed},
			"COPY":                 {"COPY", readOnly, proto.CommandWrite, proto.StatusDiskFull, http.StatusInsufficientStorage},
			"COPY on the server":   {"COPY", readOnly, proto.CommandIoctl, proto.StatusDiskFull, http.StatusInsufficientStorage},
			"COPY, other":          {"COPY", readOnly, proto.CommandRead, proto.StatusFileClosed, http.StatusInternalServerError},
			"PUT, disk, in memory": {"PUT", withWriteTo, proto.CommandWrite, proto.StatusDiskFull, http.StatusInsufficientStorage},
		} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				var armed atomic.Bool
				s := server
				s.Size = 1 << 20
				s.Hook = func(sc *script.Conn, m *script.Message) bool {
					if !armed.Load() || m.Command != c.refused {
						return false
					}
					sc.Refuse(m, c.with)
					return true
				}
				_, share := scriptedShare(t, &s)
				armed.Store(true)
				h := smbdav.Handler(&webdav.Handler{FileSystem: smbdav.New(share), LockSystem: webdav.NewMemLS()})
				body := c.body(bytes.NewReader(make([]byte, 3<<20)))
				r := httptest.NewRequestWithContext(t.Context(), c.method, "/file", body)
				r.Header.Set("Destination", "/other")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != c.status || strings.TrimSpace(w.Body.String()) != webdav.StatusText(c.status) {
					t.Errorf("status %d, %q, want %d", w.Code, w.Body, c.status)
				}
			})
		}
	}
}
