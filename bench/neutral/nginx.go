package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/freeport"
	"github.com/tarn-go/tarn/internal/selfsigned"
)

// becomeNginx replaces this process by an nginx of one process, which serves what sendZeros does: small content from its configuration,
// other from files. The processor time of the process is then nginx's. Another process prints the address once nginx listens.
func becomeNginx(secure bool) error {
	program, err := findNginx()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "neutral-nginx")
	if err != nil {
		return err
	}
	port, err := freeport.Reserve()
	if err != nil {
		return err
	}
	for _, size := range []int{16 << 10, 1 << 20} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(size)), zeros[:size], 0o644); err != nil {
			return err
		}
	}
	listen := port.Addr() + " http2"
	if secure {
		cert, err := selfsigned.New()
		if err != nil {
			return err
		}
		certFile, keyFile, err := selfsigned.WriteFiles(dir, cert)
		if err != nil {
			return err
		}
		listen += fmt.Sprintf(" ssl; ssl_certificate %s; ssl_certificate_key %s", certFile, keyFile)
	}
	conf := filepath.Join(dir, "nginx.conf")
	err = os.WriteFile(conf, fmt.Appendf(nil, `daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log crit;
events { worker_connections 512; }
http {
	access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; http2_max_concurrent_streams 256;
	client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server { listen %[2]s; root %[1]s; location = /100 { return 200 %[3]q; } }
}
`, dir, listen, strings.Repeat("0", 100)), 0o600)
	if err != nil {
		return err
	}
	announce, err := child.Self("announce", port.Addr())
	if err != nil {
		return err
	}
	announce.Stdout, announce.Stderr = os.Stdout, os.Stderr
	if err := announce.Start(); err != nil {
		return err
	}
	return syscall.Exec(program, []string{program, "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", conf}, os.Environ())
}

// announce prints an address as soon as something listens there.
func announce(addr string) error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			fmt.Println(addr)
			return nc.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func findNginx() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("nginx is not installed")
}
