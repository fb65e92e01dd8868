// Package nginxtest runs nginx for tests that send requests to it or through it.
package nginxtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/freeport"
	"github.com/tarn-go/tarn/internal/leftout"
)

// Start runs nginx with one server until the test ends, and returns its address. options follow the address in
// the server's listen directive ("http2", say, or nothing); body is the rest of the server's block. Without
// nginx the test is left out.
func Start(t *testing.T, options, body string) string {
	t.Helper()
	leftout.Need(t, "nginx", "nginx")
	port, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	addr := port.Addr()
	dir := t.TempDir()
	conf := fmt.Sprintf(`
daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log warn;
events { worker_connections 256; }
http {
	access_log off; client_max_body_size 100m;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server { listen %[2]s %[3]s; %[4]s }
}`, dir, addr, options, body)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nginx", "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", path)
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
	deadline := time.After(20 * time.Second)
	for {
		if nc, err := net.Dial("tcp", addr); err == nil {
			nc.Close()
			return addr
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatal("nginx does not listen")
		}
	}
}
