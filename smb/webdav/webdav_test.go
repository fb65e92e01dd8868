package webdav_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
)

// serve serves a share with the further lines of configuration.
func serve(t *testing.T, mode rig.Mode, lines ...string) *httptest.Server {
	t.Helper()
	srv := rigtest.Start(t, rig.Config{Mode: mode, Share: lines})
	h := httptest.NewServer(smbdav.Handler(&webdav.Handler{FileSystem: smbdav.New(mounted(t, srv)), LockSystem: webdav.NewMemLS()}))
	t.Cleanup(h.Close)
	return h
}

func request(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	resp, got := exchange(t, method, url, body, header...)
	return resp.StatusCode, got
}

// exchange sends a request with pairs of header names and values, and returns the response and its body, which has been read.
func exchange(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
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

func TestMethods(t *testing.T) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		t.Run(mode.Name(), func(t *testing.T) {
			h := serve(t, mode)
			large := string(bytes.Repeat([]byte("0123456789"), 300_000))
			for _, c := range []struct {
				method, path, body string
				header             []string
				status             int
				says               string
			}{
				{"MKCOL", "/d", "", nil, 201, ""},
				{"MKCOL", "/d", "", nil, 405, ""},
				{"PUT", "/d/one.txt", "hello", nil, 201, ""},
				{"PUT", "/d/large", large, nil, 201, ""},
				{"PUT", "/none/x", "x", nil, 409, ""},
				{"GET", "/d/one.txt", "", nil, 200, "hello"},
				{"GET", "/d/large", "", []string{"Range", "bytes=1000001-1000005"}, 206, "12345"},
				{"GET", "/none", "", nil, 404, ""},
				{"PROPFIND", "/d", "", []string{"Depth", "1"}, 207, "text/plain"},
				{"COPY", "/d", "", []string{"Destination", h.URL + "/e"}, 201, ""},
				{"MOVE", "/e/one.txt", "", []string{"Destination", h.URL + "/e/two.txt"}, 201, ""},
				{"GET", "/e/two.txt", "", nil, 200, "hello"},
				{"DELETE", "/", "", nil, 405, ""},
				{"DELETE", "/d", "", nil, 204, ""},
				{"GET", "/d/one.txt", "", nil, 404, ""},
				{"GET", "/e/large", "", nil, 200, large},
			} {
				status, body := request(t, c.method, h.URL+c.path, c.body, c.header...)
				if status != c.status || !strings.Contains(body, c.says) {
					t.Errorf("%s %s: %d, %.200q", c.method, c.path, status, body)
				}
			}
		})
	}
}

// TestLitmus runs litmus, a test suite for WebDAV servers.
func TestLitmus(t *testing.T) {
	leftout.Need(t, "litmus", "litmus")
	h := serve(t, rig.Plain)
	cmd := exec.CommandContext(t.Context(), "litmus", "-k", h.URL)
	cmd.Dir = t.TempDir() // it writes a log
	out, err := cmd.CombinedOutput()
	passed := 0
	for _, m := range regexp.MustCompile(`(?m)summary for .*: of \d+ tests run: (\d+) passed, (\d+) failed`).FindAllStringSubmatch(string(out), -1) {
		t.Log(m[0])
		passed++
	}
	if err != nil || passed < 4 {
		t.Errorf("%v\n%s", err, out)
	}
}
