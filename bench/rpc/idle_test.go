package rpc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/child"
)

// idleConns is how many connections BenchmarkIdle opens.
const idleConns = 2000

// The connections are idle when the memory of neither side has fallen by more than 1 % in steadyFor readings,
// which are readEvery apart: longer than any peer's idle connection keeps its buffers.
const (
	readEvery = 200 * time.Millisecond
	steadyFor = 10
)

// idleEnv, when set to "PEER TLS", has the test binary be the server of BenchmarkIdle, so that each
// side has its memory to itself.
const idleEnv = "TARN_BENCH_IDLE"

func TestMain(m *testing.M) {
	if what := os.Getenv(idleEnv); what != "" {
		if err := serveIdle(what, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "idle server:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// BenchmarkIdle opens 2,000 connections, makes one call on each, leaves them alone, and
// reports how much more memory each side uses for one of them than before, once both have stopped
// giving memory back: live heap and stacks.
func BenchmarkIdle(b *testing.B) {
	for _, sec := range securities(b) {
		if sec.client != nil {
			// The server is another process, which makes its certificate.
			sec.client.InsecureSkipVerify = true
		}
		for _, p := range peers() {
			b.Run("tls="+sec.name+"/peer="+p.name, func(b *testing.B) {
				for range b.N {
					idle(b, p, sec)
				}
			})
		}
	}
}

func idle(b *testing.B, p peer, sec security) {
	server := startIdleServer(b, p.name, sec.name)
	defer server.stop(b)
	clients, tb := make([]client, idleConns), newIdleTB(b)
	clientBefore, serverBefore := memoryInUse(), server.memory(b)
	for i := range clients {
		clients[i] = p.client(tb, server.Addr, sec)
		resp, err := clients[i].unary(context.Background(), request(100))
		if err == nil {
			err = checkSize(resp, 100)
		}
		if err != nil {
			b.Fatalf("connection %d: %v", i, err)
		}
	}
	b.ReportMetric((steady(memoryInUse)-clientBefore)/idleConns, "client-B/conn")
	b.ReportMetric((steady(func() float64 { return server.memory(b) })-serverBefore)/idleConns, "server-B/conn")
	runtime.KeepAlive(clients)
}

// idleTB has cleanups in a slice that is made before the memory is measured: package testing takes 470 bytes for each.
type idleTB struct {
	testing.TB
	cleanups []func()
}

func newIdleTB(b *testing.B) *idleTB {
	tb := &idleTB{TB: b, cleanups: make([]func(), 0, 2*idleConns)}
	b.Cleanup(func() {
		for _, f := range tb.cleanups {
			f()
		}
	})
	return tb
}

func (tb *idleTB) Cleanup(f func()) { tb.cleanups = append(tb.cleanups, f) }

// steady reads until the figure has stopped falling, and returns it.
func steady(read func() float64) float64 {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	least := read()
	for same := 0; same < steadyFor; same++ {
		<-tick.C
		now := read()
		if now < 0.99*least {
			same = 0
		}
		least = min(least, now)
	}
	return least
}

// memoryInUse returns the bytes of live objects and of stacks.
func memoryInUse() float64 {
	// Two collections, because a sync.Pool keeps its memory for one more cycle.
	runtime.GC()
	runtime.GC()
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64() + s[1].Value.Uint64())
}

// idleServer is the server's process.
type idleServer struct{ *child.Process }

func startIdleServer(b *testing.B, peer, tls string) idleServer {
	b.Helper()
	cmd, err := child.Self()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Env = append(os.Environ(), idleEnv+"="+peer+" "+tls)
	p, err := child.Start(cmd)
	if err != nil {
		b.Fatal(err)
	}
	return idleServer{p}
}

// memory asks the server for its memoryInUse.
func (s idleServer) memory(b *testing.B) float64 {
	b.Helper()
	text, err := s.Ask()
	if err != nil {
		b.Fatal(err)
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func (s idleServer) stop(b *testing.B) {
	if err := s.Close(); err != nil {
		b.Errorf("the server's process: %v", err)
	}
}

// serveIdle is the server's process: it writes its address, then its memory for each line it reads,
// and ends with its input.
func serveIdle(what string, in io.Reader, out io.Writer) error {
	name, tls, _ := strings.Cut(what, " ")
	tb := &processTB{}
	for _, p := range peers() {
		for _, sec := range securities(tb) {
			if p.name != name || sec.name != tls {
				continue
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			p.serve(tb, l, sec)
			fmt.Fprintln(out, l.Addr())
			for s := bufio.NewScanner(in); s.Scan(); {
				fmt.Fprintf(out, "%.0f\n", memoryInUse())
			}
			return nil
		}
	}
	return fmt.Errorf("there is no %q", what)
}

// processTB is a testing.TB outside of a test: the process's end cleans up.
type processTB struct{ testing.TB }

func (*processTB) Helper()        {}
func (*processTB) Cleanup(func()) {}
func (*processTB) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}
