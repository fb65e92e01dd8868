package h2http

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/nginxtest"
	"github.com/tarn-go/tarn/internal/testcert"
)

// nginx starts nginx with one server of HTTP/2 and returns its address.
func nginx(t *testing.T, server string) string {
	t.Helper()
	return nginxtest.Start(t, "http2", server)
}

// nginx forwards to h2http by grpc_pass, the only way in which this version uses HTTP/2 for upstream
// connections.
func TestNginxInFront(t *testing.T) { eachWay(t, nginxInFront) }

func nginxInFront(t *testing.T, s security) {
	backend := strings.Replace(serve(t, s, echo()), "http", "grpc", 1)
	front := nginx(t, "location / { grpc_pass "+backend+"; }")
	c := client(t)
	for _, n := range []int{0, 1, 100000, 1 << 20} {
		resp, err := c.Post("http://"+front+"/", "application/octet-stream", bytes.NewReader(make([]byte, n)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if len(b) != n || err != nil || n > 0 && resp.Trailer.Get("Count") != fmt.Sprint(n, " <nil>") { // nginx drops the trailers of an empty answer
			t.Errorf("%d bytes of %d, %v, trailer %q", len(b), n, err, resp.Trailer)
		}
	}
}

// TestNginxBehind sends requests to nginx.
func TestNginxBehind(t *testing.T) { eachClient(t, nginxBehind) }

func nginxBehind(t *testing.T, s security, c *http.Client) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o755)
	options, certificate, base := "http2", "", "http://"
	if s == overTLS {
		cert, key, _ := testcert.Files(t)
		options, certificate, base = "ssl http2", "ssl_certificate "+cert+"; ssl_certificate_key "+key+"; ", "https://"
	}
	base += nginxtest.Start(t, options, certificate+`root `+dir+`; location = /hello { return 200 "hello"; } location = /gone { return 410; }`)
	for path, want := range map[string]int{"/hello": 5, "/big": 3 << 20} {
		resp, err := c.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if len(b) != want || err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 {
			t.Errorf("%s: %s, %d bytes, %v", path, resp.Status, len(b), err)
		}
	}
	resp, err := c.Head(base + "/big")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ContentLength != 3<<20 {
		t.Errorf("HEAD: length %d", resp.ContentLength)
	}
	// nginx closes a connection after 1,000 requests: the rest go on another.
	for i := range 1500 {
		resp, err := c.Get(base + "/gone")
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusGone {
			t.Fatalf("request %d: %s", i, resp.Status)
		}
	}
}
