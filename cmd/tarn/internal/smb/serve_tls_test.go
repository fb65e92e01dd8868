//go:build unix

package smb

import (
	"crypto/tls"
	"net/http"
	"regexp"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/testcert"
)

// TestServeTLS serves over HTTPS, and answers no request in the clear.
func TestServeTLS(t *testing.T) {
	s := startServer(t, rig.Config{})
	write(t, s.Dir, map[string]string{"file": "x"})
	cert, key, roots := testcert.Files(t)
	said := serveURL(t, "-webdav", "-listen", "127.0.0.1:0", "-tls-cert", cert, "-tls-key", key, s.url(""))
	m := regexp.MustCompile(`at https://(127\.0\.0\.1:\d+)/ for user (\w+) with password (\w+)`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("%q", said)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	for url, want := range map[string]int{"https://" + m[1] + "/file": http.StatusOK, "http://" + m[1] + "/file": http.StatusBadRequest} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(m[2], m[3])
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", url, resp.Status)
		}
	}
}
