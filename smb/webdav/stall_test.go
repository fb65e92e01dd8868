package webdav_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
)

// TestStalledPut puts a file on a server that accepts 1 MiB and then answers only ECHO: the PUT fails after a minute,
// and one more for each MiB in flight if the body has ended. A client that takes five minutes for its body does not.
func TestStalledPut(t *testing.T) {
	for name, c := range map[string]struct {
		accepts int64 // bytes
		pause   time.Duration
		mib     int  // of the body before the pause; one comes after it
		hide    bool // methods of the body besides Read, so that the handler calls ReadFrom and not Write
		status  int
		least   time.Duration
	}{
		"the server stalls":               {1 << 20, 0, 20, true, http.StatusMethodNotAllowed, time.Minute},
		"the server stalls at the end":    {1 << 20, 0, 4, true, http.StatusMethodNotAllowed, 6 * time.Minute},
		"the server stalls, Write":        {1 << 20, 0, 4, false, http.StatusMethodNotAllowed, time.Minute},
		"the client is slow":              {1 << 30, 5 * time.Minute, 4, true, http.StatusCreated, 5 * time.Minute},
		"the client is slow before Write": {1 << 30, 5 * time.Minute, 4, false, http.StatusCreated, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script.Server{Hook: func(sc *script.Conn, m *script.Message) bool {
					return m.Command == proto.CommandWrite && sc.Written >= c.accepts
				}}
				_, share := scriptedShare(t, s)
				h := &webdav.Handler{FileSystem: smbdav.New(share), LockSystem: webdav.NewMemLS()}
				body := io.MultiReader(bytes.NewReader(make([]byte, c.mib<<20)), pause(c.pause), bytes.NewReader(make([]byte, 1<<20)))
				if c.hide {
					body = struct{ io.Reader }{body}
				}
				r := httptest.NewRequestWithContext(t.Context(), "PUT", "/file", body)
				w := httptest.NewRecorder()
				begun := time.Now()
				h.ServeHTTP(w, r)
				if took := time.Since(begun); w.Code != c.status || took < c.least || took > c.least+30*time.Second {
					t.Errorf("status %d after %v", w.Code, took)
				}
			})
		})
	}
}

// pause is a reader that waits, and then returns io.EOF.
type pause time.Duration

func (p pause) Read([]byte) (int, error) {
	<-time.After(time.Duration(p))
	return 0, io.EOF
}
