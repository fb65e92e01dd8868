package rclone

import (
	"bytes"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// lossySuite is a suite of rclone's that is run with Tarn's backend while its connections are lost.
type lossySuite struct {
	pkg    string
	env    []string
	passes int   // at least
	whole  int64 // bytes that each connection carries at least: more than one request of the suite has
}

func lossySuites() []lossySuite {
	return []lossySuite{
		{"fs/sync", nil, 130, 256 << 10},
		{"fs/operations", []string{"RCLONE_MULTI_THREAD_CHUNK_SIZE=64Ki"}, 200, 256 << 10},
		{"vfs", []string{"RCLONE_POLL_INTERVAL=0"}, 300, 3 << 19}, // it writes a file of 5 MiB
	}
}

func (s lossySuite) command(t *testing.T, srv *server) *exec.Cmd {
	bin := shop(t).build(t, tarnsmb, rclone+"/"+s.pkg, "test", "-c")
	cmd := exec.Command(bin, "-remote", srv.share, "-test.v", "-test.timeout=15m")
	cmd.Dir = filepath.Join(shop(t).rclone, filepath.FromSlash(s.pkg))
	cmd.Env = append(srv.env(tarnsmb), s.env...)
	return cmd
}

// TestSuitesPOSIX runs rclone's suites with Tarn's backend on a server that has the POSIX extensions, with the options posix and links.
func TestSuitesPOSIX(t *testing.T) {
	if os.Getenv("TARN_LONG") != "1" {
		t.Skip("only with TARN_LONG=1")
	}
	for _, suite := range lossySuites() {
		t.Run(suite.pkg, func(t *testing.T) {
			s := rigtest.StartPOSIX(t, "../..", rig.Config{Mode: rig.Signed, Share: []string{"mangled names = no"}})
			cmd := suite.command(t, configure(t, s, s.Addr))
			cmd.Env = append(cmd.Env, remote+"POSIX=true", remote+"LINKS=true", remote+"ENCODING=Slash,BackSlash,InvalidUtf8,Dot")
			out, err := cmd.CombinedOutput()
			passed := count("PASS", out)
			t.Logf("%d tests passed, %d left out", passed, count("SKIP", out))
			if err != nil || passed < suite.passes {
				t.Errorf("%v\n%s", err, tail(out))
			}
		})
	}
}

// TestSuitesWithLosses runs rclone's suites with Tarn's backend over connections each of which is reset after some number of bytes. The
// server goes on.
func TestSuitesWithLosses(t *testing.T) {
	if os.Getenv("TARN_LONG") != "1" {
		t.Skip("only with TARN_LONG=1")
	}
	for _, suite := range lossySuites() {
		for _, mode := range rig.Modes() {
			t.Run(suite.pkg+" "+mode.Name(), func(t *testing.T) {
				s := rigtest.Start(t, rig.Config{Mode: mode})
				l := resetting(t, s.Addr, suite.whole)
				cmd := suite.command(t, configure(t, s, l.addr))
				out, err := cmd.CombinedOutput()
				passed := count("PASS", out)
				t.Logf("%d tests passed, %d connections were reset", passed, l.resets.Load())
				if err != nil || passed < suite.passes || l.resets.Load() < 5 {
					t.Errorf("%v\n%s", err, tail(out))
				}
			})
		}
	}
}

// resetter relays connections, and resets each after a random number of bytes.
type resetter struct {
	addr   string
	whole  int64
	resets atomic.Int64
}

// resetting relays connections with the server at addr until the test ends, and resets each after one to three times whole bytes.
func resetting(t *testing.T, addr string, whole int64) *resetter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &resetter{addr: l.Addr().String(), whole: whole}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.relay(nc.(*net.TCPConn), addr) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return r
}

func (r *resetter) relay(client *net.TCPConn, addr string) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		client.Close()
		return
	}
	server := nc.(*net.TCPConn)
	var left atomic.Int64
	left.Store(r.whole + rand.Int64N(2*r.whole))
	var once sync.Once
	end := func() {
		once.Do(func() { client.Close(); server.Close() })
	}
	var both sync.WaitGroup
	for _, way := range [][2]*net.TCPConn{{server, client}, {client, server}} {
		both.Go(func() {
			b := make([]byte, 4096)
			for {
				n, err := way[1].Read(b)
				if left.Add(-int64(n)) < 0 {
					r.resets.Add(1)
					client.SetLinger(0)
					server.SetLinger(0)
					end()
					return
				}
				if n > 0 {
					if _, err := way[0].Write(b[:n]); err != nil {
						end()
						return
					}
				}
				if err != nil {
					end()
					return
				}
			}
		})
	}
	both.Wait()
}

// TestSuitesWithRestarts runs rclone's suites while the server is ended and started again every few seconds.
func TestSuitesWithRestarts(t *testing.T) {
	if os.Getenv("TARN_LONG") != "1" {
		t.Skip("only with TARN_LONG=1")
	}
	for _, suite := range lossySuites() {
		for _, mode := range rig.Modes() {
			t.Run(suite.pkg+" "+mode.Name(), func(t *testing.T) { runWithRestarts(t, suite, mode) })
		}
	}
}

func runWithRestarts(t *testing.T, suite lossySuite, mode rig.Mode) {
	s := rigtest.Start(t, rig.Config{Mode: mode})
	cmd := suite.command(t, configure(t, s, s.Addr))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	var err error
	restarts := 0
	for running := true; running; {
		select {
		case <-tick.C:
			s.Kill()
			if err := s.Start(); err != nil {
				t.Error(err)
			}
			restarts++
		case err = <-ended:
			running = false
		}
	}
	passed := count("PASS", out.Bytes())
	t.Logf("%d tests passed, the server was started again %d times", passed, restarts)
	if err != nil || passed < suite.passes || restarts == 0 {
		t.Errorf("%v\n%s", err, tail(out.Bytes()))
	}
}
