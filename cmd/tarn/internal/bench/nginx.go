package bench

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/internal/freeport"
	"github.com/tarn-go/tarn/internal/selfsigned"
)

// nginx is a running nginx of one process.
type nginx struct {
	cmd  *exec.Cmd
	dir  string
	port *freeport.Port
	url  string
}

// startNginx starts nginx with a page of size bytes: a small one from its
// configuration, a large one from a file.
func startNginx(size int, sec security) (*nginx, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return nil, errors.New("it is not installed")
		}
	}
	dir, err := os.MkdirTemp("", "tarn-bench-nginx")
	if err != nil {
		return nil, err
	}
	n := &nginx{dir: dir}
	if err := n.start(program, size, sec); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *nginx) start(program string, size int, sec security) error {
	port, err := freeport.Reserve() // nginx cannot choose a free port itself
	if err != nil {
		return err
	}
	n.port = port
	addr := port.Addr()
	conf, err := n.configuration(addr, size, sec)
	if err != nil {
		return err
	}
	path := filepath.Join(n.dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		return err
	}
	n.cmd = exec.Command(program, "-p", n.dir, "-e", filepath.Join(n.dir, "error.log"), "-c", path)
	var out bytes.Buffer
	n.cmd.Stdout, n.cmd.Stderr = &out, &out
	if err := n.cmd.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if nc, err := net.Dial("tcp", addr); err == nil {
			return nc.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not listen: %s", out.String())
		}
	}
}

func (n *nginx) configuration(addr string, size int, sec security) (string, error) {
	page := fmt.Sprintf("location = /page { return 200 %q; }", strings.Repeat("0", min(size, 4096)))
	if size > 4096 {
		if err := os.WriteFile(filepath.Join(n.dir, "page"), zeros[:size], 0o600); err != nil {
			return "", err
		}
		page = "root " + n.dir + ";"
	}
	n.url = "http://" + addr + "/page"
	listen := addr + " http2"
	if sec == overTLS {
		n.url = "https://" + addr + "/page"
		cert, err := selfsigned.New()
		if err != nil {
			return "", err
		}
		certFile, keyFile, err := selfsigned.WriteFiles(n.dir, cert)
		if err != nil {
			return "", err
		}
		listen += fmt.Sprintf(" ssl; ssl_certificate %s; ssl_certificate_key %s", certFile, keyFile)
	}
	return fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log crit;
events { worker_connections 512; }
http {
	access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; http2_max_concurrent_streams 256;
	client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server { listen %[2]s; %[3]s }
}
`, n.dir, listen, page), nil
}

// processorTime returns the processor time that nginx has used: it has one thread, whose time the
// scheduler reports in nanoseconds.
func (n *nginx) processorTime() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", n.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	used, _, _ := strings.Cut(string(b), " ")
	ns, _ := strconv.ParseInt(used, 10, 64)
	return time.Duration(ns)
}

func (n *nginx) close() {
	if n.cmd != nil && n.cmd.Process != nil {
		n.cmd.Process.Kill()
		n.cmd.Wait()
	}
	if n.port != nil {
		n.port.Release()
	}
	os.RemoveAll(n.dir)
}
