package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/internal/turn"
)

// BenchmarkLibsmb2 reads 1 MiB at a time in the clear, one read after the other, with Tarn's client and with libsmb2, the client of VLC,
// Kodi and others in C. It needs a C compiler, and libsmb2 where pkg-config finds it (Debian 13: libsmb2-dev).
func BenchmarkLibsmb2(b *testing.B) {
	program := buildLibsmb2(b)
	srv := rigtest.Start(b, rig.Config{})
	fill(b, srv)
	s := shape{"seq-1M", 1 << 20, false}
	for _, p := range turn.Order("tarn", "libsmb2") {
		b.Run("mode=plain/op=read/shape=seq-1M/goroutines=1/peer="+p, func(b *testing.B) {
			if p == "tarn" {
				overTCP(b, peer{p, mountTarn}, srv, srv.Addr, "read", s, 1)
			} else {
				libsmb2(b, program, srv, s)
			}
		})
	}
}

// buildLibsmb2 compiles testdata/libsmb2.c.
func buildLibsmb2(b *testing.B) string {
	b.Helper()
	flags, err := exec.Command("pkg-config", "--cflags", "--libs", "libsmb2").CombinedOutput()
	if err != nil {
		b.Skipf("libsmb2 is not installed: pkg-config: %v: %s", err, flags)
	}
	program := filepath.Join(b.TempDir(), "libsmb2")
	args := append([]string{"-O2", "-o", program, "testdata/libsmb2.c"}, strings.Fields(string(flags))...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		b.Fatalf("cc: %v: %s", err, out)
	}
	return program
}

// libsmb2 has the program read, on each of several connections in turn, as overTCP does. The program measures itself: its start and
// login do not count.
func libsmb2(b *testing.B, program string, srv *rig.Server, s shape) {
	var elapsed, processor time.Duration
	for i := range connections {
		count := b.N*(i+1)/connections - b.N*i/connections
		cmd := exec.Command(program, srv.Addr, srv.Share, srv.User, "file", fmt.Sprint(fileBytes), fmt.Sprint(s.size), fmt.Sprint(count))
		cmd.Env = append(os.Environ(), "PASSWORD="+srv.Password)
		out, err := cmd.Output()
		if err != nil {
			if e, ok := err.(*exec.ExitError); ok {
				b.Fatalf("libsmb2: %v: %s", err, e.Stderr)
			}
			b.Fatal(err)
		}
		var e, p time.Duration
		if _, err := fmt.Sscan(string(out), &e, &p); err != nil {
			b.Fatalf("libsmb2 printed %q: %v", out, err)
		}
		elapsed, processor = elapsed+e, processor+p
	}
	moved := float64(b.N) * float64(s.size)
	b.ReportMetric(float64(elapsed)/float64(b.N), "ns/op")
	b.ReportMetric(moved/1e6/elapsed.Seconds(), "MB/s")
	b.ReportMetric(processor.Seconds()/(moved/(1<<30)), "cpu-s/GiB")
}
