package h2http

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// nginx starts nginx with a configuration whose server listens on LISTEN, and returns
// its address.
func nginx(t *testing.T, server string) string {
	t.Helper()
	program := need(t, "nginx")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	conf := fmt.Sprintf(`
daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log warn;
events { worker_connections 256; }
http {
	access_log off; client_max_body_size 100m;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server { listen %[2]s http2; %[3]s }
}`, dir, addr, server)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("nginx: %s%s", out.String(), b)
		}
	})
	deadline := time.After(10 * time.Second)
	for {
		if nc, err := net.Dial("tcp", addr); err == nil {
			nc.Close()
			return addr
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("nginx does not listen: %s", out.String())
		}
	}
}

// TestNginxInFront has nginx forward to h2http by grpc_pass, which is how this version
// speaks HTTP/2 to what is behind it.
func TestNginxInFront(t *testing.T) {
	backend := serve(t, plain, echo())
	front := nginx(t, "location / { grpc_pass grpc://"+strings.TrimPrefix(backend, "http://")+"; }")
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
func TestNginxBehind(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o755)
	addr := nginx(t, `root `+dir+`; location = /hello { return 200 "hello"; } location = /gone { return 410; }`)
	c := client(t)
	for path, want := range map[string]int{"/hello": 5, "/big": 3 << 20} {
		resp, err := c.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if len(b) != want || err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 {
			t.Errorf("%s: %s, %d bytes, %v", path, resp.Status, len(b), err)
		}
	}
	resp, err := c.Head("http://" + addr + "/big")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ContentLength != 3<<20 {
		t.Errorf("HEAD: length %d", resp.ContentLength)
	}
	// nginx closes a connection after 1,000 requests: the rest go on another.
	for i := range 1500 {
		resp, err := c.Get("http://" + addr + "/gone")
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusGone {
			t.Fatalf("request %d: %s", i, resp.Status)
		}
	}
}
