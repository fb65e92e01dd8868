package bench

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/cputime"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

const (
	smallBytes = 4 << 10
	listed     = 5000 // files of the directory that is listed
)

// BenchmarkFiles measures operations on small files and directories, one at a time, against a
// Samba server on this machine.
func BenchmarkFiles(b *testing.B) {
	for _, mode := range rig.Modes() {
		srv := rigtest.Start(b, rig.Config{Mode: mode})
		makeFiles(b, srv, "list", listed, 0)
		makeFiles(b, srv, "small", 100, smallBytes)
		data := make([]byte, smallBytes)
		for _, op := range []struct {
			name string
			run  func(m mount, i int) error
		}{
			{"open-read-4K", func(m mount, i int) error {
				got, err := m.read(fmt.Sprintf("small/%05d", i%100))
				if err == nil && len(got) != smallBytes {
					err = fmt.Errorf("%d bytes", len(got))
				}
				return err
			}},
			{"create-write-4K", func(m mount, i int) error {
				return m.write(fmt.Sprintf("small/new-%d", i%100), data)
			}},
			{"create-new-4K", func(m mount, i int) error {
				name := fmt.Sprintf("small/made-%d", i%100)
				os.Remove(filepath.Join(srv.Dir, name)) // on the server's disk
				return m.write(name, data)
			}},
			{"write-file-4K", func(m mount, i int) error {
				return m.writeFile(fmt.Sprintf("small/new-%d", i%100), data)
			}},
			{"stat", func(m mount, i int) error { return m.stat(fmt.Sprintf("small/%05d", i%100)) }},
			{"list-5000", func(m mount, _ int) error {
				n, err := m.list("list")
				if err == nil && n != listed {
					err = fmt.Errorf("%d entries", n)
				}
				return err
			}},
		} {
			for _, p := range peers() {
				b.Run(fmt.Sprintf("mode=%s/op=%s/peer=%s", mode.Name(), op.name, p.name), func(b *testing.B) {
					conn, err := net.Dial("tcp", srv.Addr)
					if err != nil {
						b.Fatal(err)
					}
					m := p.mount(b, conn, srv.User, srv.Password, srv.Share)
					defer m.close()
					if err := op.run(m, 0); err != nil {
						b.Fatal(err)
					}
					b.ReportAllocs()
					begun, i := cputime.Used(), 0
					for b.Loop() {
						if err := op.run(m, i); err != nil {
							b.Fatal(err)
						}
						i++
					}
					b.ReportMetric(float64(cputime.Used()-begun)/float64(b.N), "cpu-ns/op")
				})
			}
		}
	}
}

// makeFiles makes a directory of files on the server's disk.
func makeFiles(b *testing.B, srv *rig.Server, dir string, files, size int) {
	b.Helper()
	dir = filepath.Join(srv.Dir, dir)
	if err := os.Mkdir(dir, 0o777); err != nil {
		b.Fatal(err)
	}
	made := []string{dir}
	for i := range files {
		name := filepath.Join(dir, fmt.Sprintf("%05d", i))
		if err := os.WriteFile(name, make([]byte, size), 0o666); err != nil {
			b.Fatal(err)
		}
		made = append(made, name)
	}
	if os.Geteuid() != 0 {
		return
	}
	for _, name := range made {
		if err := srv.Own(name); err != nil {
			b.Fatal(err)
		}
	}
}
