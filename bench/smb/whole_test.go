package bench

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/cputime"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/internal/turn"
)

// BenchmarkWhole reads a file of 128 MiB into memory, and writes it from there, with Tarn's client, go-smb2, and the crate smb2, which
// pipelines its requests, too. The crate is built by cargo from crates.io. It signs in clear sessions, too; the others do not. Its login
// (0.20.1) is refused by Samba where everything has to be encrypted, so it is left out there.
func BenchmarkWhole(b *testing.B) {
	program := buildCrate(b)
	for _, mode := range rig.Modes() {
		srv := rigtest.Start(b, rig.Config{Mode: mode})
		fill(b, srv)
		for _, op := range []string{"read", "write"} {
			for _, p := range turn.Order("tarn", "go-smb2", "smb2-rs") {
				b.Run(fmt.Sprintf("mode=%s/op=%s/peer=%s", mode.Name(), op, p), func(b *testing.B) {
					b.SetBytes(fileBytes)
					if p == "smb2-rs" {
						if mode == rig.Encrypted {
							b.Skip("the crate cannot log in where the server requires encryption")
						}
						crate(b, program, srv, op)
						return
					}
					for _, q := range peers() {
						if q.name == p {
							wholeFile(b, q, srv, op)
						}
					}
				})
			}
		}
	}
}

// wholeFile is the benchmark of a client in this process.
func wholeFile(b *testing.B, p peer, srv *rig.Server, op string) {
	conn, err := net.Dial("tcp", srv.Addr)
	must(b, err)
	m := p.mount(b, conn, srv.User, srv.Password, srv.Share)
	defer m.close()
	data := make([]byte, fileBytes)
	run := func() {
		if op == "write" {
			must(b, m.writeFile("file", data))
			return
		}
		got, err := m.readFile("file")
		if err == nil && len(got) != fileBytes {
			err = io.ErrUnexpectedEOF
		}
		must(b, err)
	}
	run() // to warm up
	begun := cputime.Used()
	for b.Loop() {
		run()
	}
	reportCPU(b, begun, fileBytes)
}

// buildCrate builds testdata/smb2-rs.
func buildCrate(b *testing.B) string {
	b.Helper()
	if _, err := exec.LookPath("cargo"); err != nil {
		b.Skip("cargo is not installed")
	}
	cache, err := os.UserCacheDir()
	must(b, err)
	target := filepath.Join(cache, "tarn-smb2-rs")
	cmd := exec.Command("cargo", "build", "--release", "--quiet", "--target-dir", target)
	cmd.Dir = filepath.Join("testdata", "smb2-rs")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("cargo: %v: %s", err, out)
	}
	return filepath.Join(target, "release", "whole")
}

// crate has the program do op. It measures itself: its start and login do not count.
func crate(b *testing.B, program string, srv *rig.Server, op string) {
	cmd := exec.Command(program, srv.Addr, srv.Share, srv.User, "file", op, fmt.Sprint(fileBytes), fmt.Sprint(b.N))
	cmd.Env = append(os.Environ(), "PASSWORD="+srv.Password)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(b, err)
	var elapsed, processor time.Duration
	if _, err := fmt.Sscan(string(out), &elapsed, &processor); err != nil {
		b.Fatalf("the crate's program printed %q: %v", out, err)
	}
	moved := float64(b.N) * fileBytes
	b.ReportMetric(float64(elapsed)/float64(b.N), "ns/op")
	b.ReportMetric(moved/1e6/elapsed.Seconds(), "MB/s")
	b.ReportMetric(processor.Seconds()/(moved/(1<<30)), "cpu-s/GiB")
}
