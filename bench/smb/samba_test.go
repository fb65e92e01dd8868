package bench

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/cputime"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// fileBytes is the length of the file that is read and written, which the machine keeps in memory.
const fileBytes = 128 << 20

// shape is a way of reading and writing.
type shape struct {
	name   string
	size   int
	random bool
}

func shapes() []shape {
	return []shape{{"seq-64K", 64 << 10, false}, {"seq-1M", 1 << 20, false}, {"seq-16M", 16 << 20, false}, {"rand-4K", 4 << 10, true}}
}

// BenchmarkSamba reads and writes on a real Samba server on this machine, with Tarn's client, go-smb2 and smbclient.
func BenchmarkSamba(b *testing.B) {
	for _, mode := range rig.Modes() {
		srv := rigtest.Start(b, rig.Config{Mode: mode})
		fill(b, srv)
		for _, op := range []string{"read", "write"} {
			for _, s := range shapes() {
				for _, goroutines := range []int{1, 8} {
					for _, p := range peers() {
						name := fmt.Sprintf("mode=%s/op=%s/shape=%s/goroutines=%d/peer=%s", mode.Name(), op, s.name, goroutines, p.name)
						b.Run(name, func(b *testing.B) { overTCP(b, p, srv, srv.Addr, op, s, goroutines) })
					}
				}
			}
			b.Run(fmt.Sprintf("mode=%s/op=%s/shape=whole/goroutines=1/peer=smbclient", mode.Name(), op), func(b *testing.B) {
				smbclient(b, srv, mode, op)
			})
		}
	}
}

// BenchmarkDelayed is the same with a round-trip time: each frame is delayed by half of it.
func BenchmarkDelayed(b *testing.B) {
	srv := rigtest.Start(b, rig.Config{})
	fill(b, srv)
	for _, rtt := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond} {
		addr := rigtest.Delay(b, srv.Addr, rtt/2)
		for _, op := range []string{"read", "write"} {
			for _, s := range shapes()[1:3] {
				for _, p := range peers() {
					name := fmt.Sprintf("rtt=%v/op=%s/shape=%s/peer=%s", rtt, op, s.name, p.name)
					b.Run(name, func(b *testing.B) { overTCP(b, p, srv, addr, op, s, 1) })
				}
			}
		}
	}
}

func fill(b *testing.B, srv *rig.Server) {
	b.Helper()
	name := filepath.Join(srv.Dir, "file")
	if err := os.WriteFile(name, make([]byte, fileBytes), 0o666); err != nil {
		b.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := srv.Own(name); err != nil {
			b.Fatal(err)
		}
	}
}

// connections is how many connections a client moves data over, one after the other. A server may serve one of several equal
// connections more slowly than the others (docs/design/smb.md, the server's heap).
const connections = 4

// overTCP has goroutines do op on one file, on each of several connections in turn.
func overTCP(b *testing.B, p peer, srv *rig.Server, addr, op string, s shape, goroutines int) {
	bufs := make([][]byte, goroutines)
	for i := range bufs {
		bufs[i] = make([]byte, s.size)
	}
	var runs []func([]byte, int64) (int, error)
	for range connections {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		m := p.mount(b, conn, srv.User, srv.Password, srv.Share)
		defer m.close()
		f, err := m.open("file")
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		run := f.ReadAt
		if op == "write" {
			run = f.WriteAt
		}
		var next atomic.Int64
		// Memory and credits as in steady state; the credits first, because go-smb2 may use more than it was granted when eight
		// goroutines begin at once, and smbd then ends the connection.
		move(b, run, s, bufs[:1], &next, int64(2*goroutines))
		move(b, run, s, bufs, &next, int64(4*goroutines))
		runs = append(runs, run)
	}
	b.SetBytes(int64(s.size))
	b.ReportAllocs()
	begun, spent := cputime.Used(), spending{srv: srv}
	b.StopTimer()
	b.ResetTimer()
	spent.start(b)
	var next atomic.Int64
	for i, run := range runs {
		move(b, run, s, bufs, &next, int64(b.N)*int64(i+1)/connections)
	}
	spent.stop(b)
	reportCPU(b, begun, s.size)
	spent.report(b)
}

// move has a goroutine for each buffer call run, until next has reached end.
func move(b *testing.B, run func([]byte, int64) (int, error), s shape, bufs [][]byte, next *atomic.Int64, end int64) {
	var wg sync.WaitGroup
	for _, buf := range bufs {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= end {
					return
				}
				off := i * int64(s.size) % fileBytes
				if s.random {
					off = rand.Int64N(fileBytes/int64(s.size)) * int64(s.size)
				}
				if err := whole(run(buf, off)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	next.Store(end) // each goroutine has taken one more
}

// smbclient copies the whole file, its logging on included.
func smbclient(b *testing.B, srv *rig.Server, mode rig.Mode, op string) {
	path, err := exec.LookPath("smbclient")
	if err != nil {
		b.Skip("smbclient is not installed")
	}
	host, port, err := net.SplitHostPort(srv.Addr)
	if err != nil {
		b.Fatal(err)
	}
	command := "get file /dev/null"
	if op == "write" {
		command = "put " + filepath.Join(srv.Dir, "file") + " copy"
	}
	b.SetBytes(fileBytes)
	for range b.N {
		cmd := exec.Command(path, "//"+host+"/"+srv.Share, "-p", port, "-U", srv.User+"%"+srv.Password,
			"--client-protection="+protection(mode), "-c", command)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}
