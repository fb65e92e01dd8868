//go:build unix

package smb

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/testcert"
)

// TestServeTLS serves over HTTPS, and answers no request in the clear.
func TestServeTLS(t *testing.T) {
	s := startServer(t, rig.Config{})
	write(t, s.Dir, map[string]string{"file": "x"})
	cert, roots := testcert.New(t)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	said := serveURL(t, "-webdav", "-listen", "127.0.0.1:0", "-tls-cert", file("cert", "CERTIFICATE", cert.Certificate[0]),
		"-tls-key", file("key", "PRIVATE KEY", key), s.url(""))
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
