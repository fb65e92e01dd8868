package bench

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// removedFiles is how many empty files a removed tree has.
const removedFiles = 1000

// BenchmarkRemoveAll removes a directory with 1,000 files, and one with 100 directories of ten each. The files lie in memory,
// where there is a /dev/shm.
func BenchmarkRemoveAll(b *testing.B) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		b.Setenv("TMPDIR", "/dev/shm")
	}
	for _, mode := range rig.Modes() {
		srv := rigtest.Start(b, rig.Config{Mode: mode})
		for _, rtt := range []time.Duration{0, 2 * time.Millisecond} {
			addr := srv.Addr
			if rtt > 0 {
				addr = rigtest.Delay(b, addr, rtt/2)
			}
			for _, dirs := range []int{1, 100} {
				for _, p := range peers() {
					b.Run(fmt.Sprintf("mode=%s/rtt=%v/dirs=%d/peer=%s", mode.Name(), rtt, dirs, p.name), func(b *testing.B) {
						conn, err := net.Dial("tcp", addr)
						must(b, err)
						m := p.mount(b, conn, srv.User, srv.Password, srv.Share)
						defer m.close()
						for b.Loop() {
							b.StopTimer()
							makeTree(b, srv, dirs)
							b.StartTimer()
							must(b, m.removeAll("removed"))
							b.StopTimer()
							if _, err := os.Stat(filepath.Join(srv.Dir, "removed")); !os.IsNotExist(err) {
								b.Fatalf("the directory is still there: %v", err)
							}
							b.StartTimer()
						}
					})
				}
			}
		}
	}
}

// makeTree makes the directory "removed" on the server's disk, with removedFiles files in dirs directories.
func makeTree(b *testing.B, srv *rig.Server, dirs int) {
	b.Helper()
	top := filepath.Join(srv.Dir, "removed")
	must(b, os.Mkdir(top, 0o777))
	made := []string{top}
	for d := range dirs {
		dir := filepath.Join(top, fmt.Sprint(d))
		must(b, os.Mkdir(dir, 0o777))
		made = append(made, dir)
		for i := range removedFiles / dirs {
			name := filepath.Join(dir, fmt.Sprint(i))
			must(b, os.WriteFile(name, nil, 0o666))
			made = append(made, name)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	for _, name := range made {
		must(b, srv.Own(name))
	}
}
