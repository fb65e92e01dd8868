package bench

import (
	"fmt"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// BenchmarkScript is one ReadAt or WriteAt at a time over an in-memory connection to a
// scripted server that allocates nothing: the shape of go-smb2's own benchmark.
func BenchmarkScript(b *testing.B) {
	for _, op := range []string{"ReadAt", "WriteAt"} {
		for _, mode := range rig.Modes() {
			for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
				for _, p := range peers() {
					b.Run(fmt.Sprintf("op=%s/mode=%s/size=%dK/peer=%s", op, mode.Name(), size>>10, p.name), func(b *testing.B) {
						m := scripted(b, p, mode)
						f, err := m.open("file")
						if err != nil {
							b.Fatal(err)
						}
						run := f.ReadAt
						if op == "WriteAt" {
							run = f.WriteAt
						}
						buf := make([]byte, size)
						repeat(b, int64(size), func() error { return whole(run(buf, 0)) })
					})
				}
			}
		}
	}
}

// BenchmarkMixed alternates a 1 MiB ReadAt with a Stat, which shows the allocations of a client that pools only
// some of its replies.
func BenchmarkMixed(b *testing.B) {
	for _, mode := range rig.Modes() {
		for _, p := range peers() {
			b.Run(fmt.Sprintf("mode=%s/peer=%s", mode.Name(), p.name), func(b *testing.B) {
				m := scripted(b, p, mode)
				f, err := m.open("file")
				if err != nil {
					b.Fatal(err)
				}
				buf := make([]byte, 1<<20)
				repeat(b, 1<<20, func() error {
					if err := whole(f.ReadAt(buf, 0)); err != nil {
						return err
					}
					return m.stat("file")
				})
			})
		}
	}
}

// scripted mounts a scripted server's share.
func scripted(b *testing.B, p peer, mode rig.Mode) mount {
	b.Helper()
	client, server := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- serveScript(server, mode) }()
	m := p.mount(b, client, scriptUser, scriptPassword, "share")
	b.Cleanup(func() {
		m.close()
		if err := <-served; err != nil {
			b.Errorf("scripted server: %v", err)
		}
	})
	return m
}

// repeat runs op under the benchmark's clock after a few runs that warm the pools.
func repeat(b *testing.B, size int64, op func() error) {
	b.Helper()
	for range 10 {
		if err := op(); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if err := op(); err != nil {
			b.Fatal(err)
		}
	}
}

func whole(n int, err error) error {
	if err == nil && n == 0 {
		return fmt.Errorf("nothing read or written")
	}
	return err
}
