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

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
	"github.com/tarn-go/tarn/tarntest"
)

// TestNoRoom uploads to a server whose disk, or the user's quota, is full: the answer is 507 (RFC 4918 section 11.5), not the 405 or 500
// of webdav.Handler. Other failures keep their status.
func TestNoRoom(t *testing.T) {
	for mode, server := range map[string]script.Server{"plain": {}, "signed": {Signed: true}, "encrypted": {Sealed: true, Cipher: proto.CipherAES128GCM}} {
		for name, c := range map[string]struct {
			method  string
			refused proto.Command
			with    proto.Status
			status  int
		}{
			"PUT, disk":            {"PUT", proto.CommandWrite, proto.StatusDiskFull, http.StatusInsufficientStorage},
			"PUT, quota":           {"PUT", proto.CommandWrite, proto.StatusQuotaExceeded, http.StatusInsufficientStorage},
			"PUT, other":           {"PUT", proto.CommandWrite, proto.StatusFileClosed, http.StatusMethodNotAllowed},
			"COPY":                 {"COPY", proto.CommandWrite, proto.StatusDiskFull, http.StatusInsufficientStorage},
			"COPY on the server":   {"COPY", proto.CommandIoctl, proto.StatusDiskFull, http.StatusInsufficientStorage},
			"COPY, other":          {"COPY", proto.CommandRead, proto.StatusFileClosed, http.StatusInternalServerError},
			"PUT, disk, in memory": {"PUT in memory", proto.CommandWrite, proto.StatusDiskFull, http.StatusInsufficientStorage},
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
				d := smb.Dialer{Initiator: scriptedLogin{}, DialFunc: s.Dial, Pool: tarntest.NewPool(t)}
				session, err := d.Dial(t.Context(), "scripted")
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				share, err := session.Mount(t.Context(), "share")
				if err != nil {
					t.Fatal(err)
				}
				armed.Store(true)
				h := smbdav.Handler(&webdav.Handler{FileSystem: smbdav.New(share), LockSystem: webdav.NewMemLS()})
				method, inMemory := strings.CutSuffix(c.method, " in memory")
				body := bytes.NewReader(make([]byte, 3<<20))
				r := httptest.NewRequestWithContext(t.Context(), method, "/file", struct{ io.Reader }{body})
				if inMemory { // io.Copy calls its WriteTo, and that Write
					r = httptest.NewRequestWithContext(t.Context(), method, "/file", body)
				}
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
