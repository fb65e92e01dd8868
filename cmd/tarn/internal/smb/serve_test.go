//go:build unix

package smb

import (
	"bufio"
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
)

// serveURL runs serve with the arguments until the test ends, and returns what it wrote first.
func serveURL(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		status := Run(ctx, append([]string{"serve"}, args...), cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: w})
		w.Close()
		ended <- status
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	go io.Copy(io.Discard, r)
	t.Cleanup(func() {
		cancel()
		if status := <-ended; status != cli.OK {
			t.Errorf("status %d", status)
		}
	})
	return line
}

func TestServe(t *testing.T) { eachMode(t, testServe) }

func testServe(t *testing.T, s server) {
	write(t, s.Dir, map[string]string{"secret": "outside", "pub/page.html": "<p>0123456789", "pub/sub/x": "x", "pub/a & b#/'": "x", "pub/a & b#/d/x": "x"})
	if err := chownTree(s, s.Dir); err != nil {
		t.Fatal(err)
	}
	said := serveURL(t, "-webdav", "-listen", "127.0.0.1:0", s.url("pub"))
	m := regexp.MustCompile(`at (http://127\.0\.0\.1:\d+)/ for user (\w+) with password (\w+)`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("%q", said)
	}
	// Redirects are followed only where the test does so itself.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	do := func(method, path, password string, header ...string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, m[1]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(m[2], password)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(b)
	}
	for _, c := range []struct {
		method, path, password string
		header                 []string
		status                 int
		says                   string
	}{
		{"GET", "/page.html", m[3], nil, 200, "<p>0123456789"},
		{"GET", "/page.html", m[3], []string{"Range", "bytes=4-6"}, 206, "123"},
		{"GET", "/page.html", "wrong", nil, 401, "login"},
		{"GET", "/secret", m[3], nil, 404, ""},
		{"GET", "/..%5Csecret", m[3], nil, 404, ""},
		{"GET", "/..%2Fsecret", m[3], nil, 404, ""},
		{"GET", "/", m[3], nil, 200, `<li><a href="./page.html">page.html</a> 13 B`},
		{"GET", "/", m[3], nil, 200, `<li><a href="./sub/">sub/</a>`},
		{"GET", "/sub", m[3], nil, 301, ""},
		{"GET", "/sub/", m[3], nil, 200, `<a href="../">`},
		{"GET", "/a%20&%20b%23/", m[3], nil, 200, `<a href="./%27">&#39;</a>`},
		{"GET", "/a%20&%20b%23", m[3], nil, 301, ""},
		{"POST", "/page.html", m[3], nil, 200, "<p>0123456789"},
		{"HEAD", "/sub/", m[3], nil, 200, ""},
		{"GET", "/", "wrong", nil, 401, "login"},
		{"PROPFIND", "/", m[3], []string{"Depth", "1"}, 207, "page.html"},
		{"MKCOL", "/new", m[3], nil, 201, ""},
		{"MOVE", "/page.html", m[3], []string{"Destination", m[1] + "/new/page.html"}, 201, ""},
		{"DELETE", "/sub", m[3], nil, 204, ""},
		{"DELETE", "/", m[3], nil, 405, ""},
	} {
		resp, body := do(c.method, c.path, c.password, c.header...)
		if resp.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d, %.200q", c.method, c.path, resp.StatusCode, body)
		}
		if strings.Contains(body, "secret") || strings.Contains(body, "outside") {
			t.Errorf("%s %s shows what is outside of the directory: %.500q", c.method, c.path, body)
		}
		// A page of the share with a script could otherwise do with the login what it likes.
		if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'none'") {
			t.Errorf("%s %s: Content-Security-Policy %q", c.method, c.path, policy)
		}
		// And a page of another origin could read a file as its script.
		if h := resp.Header; h.Get("Cross-Origin-Resource-Policy") != "same-origin" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: %v", c.method, c.path, h)
		}
	}
	for from, want := range map[string][2]string{
		"/a%20&%20b%23":     {"./a%20&%20b%23/", `<h1>/a &amp; b#/</h1>`},
		"/a%20&%20b%23/d":   {"./d/", `<h1>/a &amp; b#/d/</h1>`},
		"/a%20&%20b%23/d?x": {"./d/?x", `<h1>/a &amp; b#/d/</h1>`},
	} {
		resp, _ := do("GET", from, m[3])
		if to := resp.Header.Get("Location"); resp.StatusCode != http.StatusMovedPermanently || to != want[0] {
			t.Errorf("%s: %s, Location %q", from, resp.Status, to)
			continue
		}
		to, err := resp.Location()
		if err != nil {
			t.Fatal(err)
		}
		if resp, body := do("GET", to.RequestURI(), m[3]); resp.StatusCode != http.StatusOK || !strings.Contains(body, want[1]) {
			t.Errorf("%s: %s, %.200q", to, resp.Status, body)
		}
	}
	if b, err := os.ReadFile(filepath.Join(s.Dir, "pub/new/page.html")); err != nil || len(b) != 13 {
		t.Errorf("%q, %v", b, err)
	}
}

// TestServeRefusedListing opens directories that the server, or this process, cannot list.
func TestServeRefusedListing(t *testing.T) {
	for refusal, want := range map[error]int{fs.ErrPermission: http.StatusForbidden, io.ErrUnexpectedEOF: http.StatusInternalServerError} {
		dir := &below{unlisted{webdav.NewMemFS(), refusal}, "/"}
		w := httptest.NewRecorder()
		dir.browse(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != want {
			t.Errorf("%v: status %d", refusal, w.Code)
		}
	}
}

// unlisted is a file system whose files cannot be opened.
type unlisted struct {
	webdav.FileSystem
	err error
}

func (u unlisted) OpenFile(_ context.Context, name string, _ int, _ fs.FileMode) (webdav.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: u.err}
}

func TestServeReadOnly(t *testing.T) {
	s := startServer(t, rig.Config{})
	write(t, s.Dir, map[string]string{"file": "x"})
	login := filepath.Join(t.TempDir(), "login")
	if err := os.WriteFile(login, []byte("me:pass:word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := serveURL(t, "-webdav", "-read-only", "-login-file", login, "-listen", "127.0.0.1:0", s.url(""))
	base := regexp.MustCompile(`http://[^/]*`).FindString(said)
	if strings.Contains(said, "password") {
		t.Errorf("%q", said)
	}
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 200, "DELETE": 403, "PUT": 403, "LOCK": 403} {
		r, err := http.NewRequestWithContext(t.Context(), method, base+"/file", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("me", "pass:word")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d", method, resp.StatusCode)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	s := startServer(t, rig.Config{})
	write(t, s.Dir, map[string]string{"file": "x"})
	for name, args := range map[string][]string{
		"no -webdav":      {s.url("")},
		"all addresses":   {"-webdav", "-listen", "0.0.0.0:0", s.url("")},
		"a file":          {"-webdav", s.url("file")},
		"half of TLS":     {"-webdav", "-tls-cert", "x", s.url("")},
		"no address":      {"-webdav", "-listen", "x", s.url("")},
		"two directories": {"-webdav", s.url(""), s.url("")},
		"an empty login":  {"-webdav", "-login-file", os.DevNull, s.url("")},
	} {
		if r := run(t.Context(), append([]string{"serve"}, args...)...); r.status != cli.Usage {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
