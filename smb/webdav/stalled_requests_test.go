package webdav_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
)

// A server that answers nothing but ECHO ends neither the connection nor the client's request, so the request has a bound of its own.
func TestStalledRequests(t *testing.T) {
	for mode, server := range scriptedModes() {
		for _, c := range []struct {
			method, name string
			after        proto.Command // the first of these is not answered, nor is what follows
			nth          int64
		}{
			{"COPY", "copying on the server", proto.CommandIoctl, 1},
			{"COPY", "opening", proto.CommandCreate, 2},
			{"COPY", "reading", proto.CommandRead, 1},
			{"COPY", "writing", proto.CommandWrite, 1},
			{"MOVE", "at once", proto.CommandCreate, 1},
			{"MKCOL", "at once", proto.CommandCreate, 1},
			{"PROPFIND", "at once", proto.CommandCreate, 1},
		} {
			t.Run(mode+"/"+c.method+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var armed atomic.Bool
					var met atomic.Int64
					s := server
					s.Size = 16 << 20
					s.Hook = func(_ *script.Conn, m *script.Message) bool {
						if armed.Load() && m.Command == c.after {
							met.Add(1)
						}
						return met.Load() >= c.nth && m.Command != proto.CommandEcho
					}
					session, share := scriptedShare(t, &s)
					armed.Store(true)
					h := smbdav.Handler(&webdav.Handler{FileSystem: smbdav.New(share), LockSystem: webdav.NewMemLS()})
					r := httptest.NewRequestWithContext(t.Context(), c.method, "/file", nil)
					r.Header.Set("Destination", "/other")
					w := httptest.NewRecorder()
					begun := time.Now()
					stop := time.AfterFunc(24*time.Hour, func() { session.Close() })
					defer stop.Stop()
					h.ServeHTTP(w, r)
					if took := time.Since(begun); met.Load() == 0 || w.Code < http.StatusBadRequest || took > 4*time.Minute {
						t.Errorf("status %d after %v, %d unanswered", w.Code, took, met.Load())
					}
				})
			})
		}
	}
}
