package bench

import (
	"fmt"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// Every contestant supports every operation of the benchmarks, in every mode.
func TestPeersAnswer(t *testing.T) {
	for _, mode := range rig.Modes() {
		for _, p := range peers() {
			t.Run(fmt.Sprintf("%s/%s", mode.Name(), p.name), func(t *testing.T) {
				client, server := net.Pipe()
				served := make(chan error, 1)
				go func() { served <- serveScript(server, mode) }()
				m := p.mount(t, client, scriptUser, scriptPassword, "share")
				f, err := m.open("file")
				if err != nil {
					t.Fatal(err)
				}
				for _, size := range []int{1, 1 << 10, 1 << 20, 3 << 20} {
					buf := make([]byte, size)
					if n, err := f.ReadAt(buf, 0); n != size || err != nil {
						t.Errorf("reading %d bytes: %d, %v", size, n, err)
					}
					if n, err := f.WriteAt(buf, 0); n != size || err != nil {
						t.Errorf("writing %d bytes: %d, %v", size, n, err)
					}
				}
				if err := m.stat("file"); err != nil {
					t.Error(err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				m.close()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		}
	}
}
