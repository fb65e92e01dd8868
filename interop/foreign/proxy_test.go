package foreign

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/freeport"
	"github.com/tarn-go/tarn/internal/leftout"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
)

// proxy is a program that stands between clients and a server.
type proxy struct {
	name string
	// command is its program and arguments; it listens at front and forwards to back. Files go to dir.
	command func(t testing.TB, dir, front, back string) []string
	reload  os.Signal
}

// configured writes a configuration file and returns its name.
func configured(t testing.TB, dir, text string) string {
	t.Helper()
	name := filepath.Join(dir, "conf")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func installed(t testing.TB, debian, program string) string {
	t.Helper()
	leftout.Need(t, debian, program)
	path, err := leftout.Path(program)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// haproxy forwards as mode and more, a few lines of its configuration, say.
func haproxy(mode, protocol, more string) func(t testing.TB, dir, front, back string) []string {
	return func(t testing.TB, dir, front, back string) []string {
		return []string{installed(t, "haproxy", "haproxy"), "-W", "-db", "-f", configured(t, dir, fmt.Sprintf(`
global
	maxconn 4000
	tune.h2.max-concurrent-streams 2000
	hard-stop-after 60s
defaults
	mode %s
	timeout connect 5s
	timeout client 60s
	timeout server 60s
	%s
frontend front
	bind %s %s
	default_backend back
backend back
	server only %s %s
`, mode, more, front, protocol, back, protocol))}
	}
}

var proxies = []proxy{
	{"haproxy", haproxy("http", "proto h2", "http-reuse always"), syscall.SIGUSR2},
	{"nginx", func(t testing.TB, dir, front, back string) []string {
		user := ""
		if os.Getuid() == 0 {
			user = "user root;"
		}
		var files syscall.Rlimit // a worker has two sockets a stream; root alone may raise the hard limit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
			t.Fatal(err)
		}
		return []string{installed(t, "nginx-light", "nginx"), "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", configured(t, dir, fmt.Sprintf(`
%[1]s daemon off; worker_processes 1; worker_shutdown_timeout 60s; pid %[2]s/pid; error_log %[2]s/error.log warn;
worker_rlimit_nofile %[5]d;
events { worker_connections 4096; }
http {
	access_log off; client_max_body_size 100m; http2_max_concurrent_streams 2000;
	client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy; fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s;
	upstream back { server %[4]s max_fails=0; keepalive 64; }
	server { listen %[3]s http2; location / { grpc_pass grpc://back; } }
}`, user, dir, front, back, min(8192, files.Max)))}
	}, syscall.SIGHUP},
}

// running is a proxy that runs.
type running struct {
	proxy
	cmd  *exec.Cmd
	addr string
}

// run runs a proxy until the test ends.
func (p proxy) run(t testing.TB, back string) running {
	t.Helper()
	port, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(port.Release)
	dir := t.TempDir()
	args := p.command(t, dir, port.Addr(), back)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its workers, too
		cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(dir, "error.log"))
			t.Logf("%s: %.4000s%.4000s", p.name, out.String(), b)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := freeport.Await(ctx, port.Addr()); err != nil {
		t.Fatal(err)
	}
	return running{p, cmd, port.Addr()}
}

// restart has the proxy read its configuration again: another process takes new connections.
func (r running) restart(t testing.TB) {
	t.Helper()
	if err := r.cmd.Process.Signal(r.reload); err != nil {
		t.Fatal(err)
	}
}

// noteTarnOnly lists, in the short form, the pairs of clients and servers that are left out.
func noteTarnOnly(t *testing.T) {
	t.Helper()
	if os.Getenv("TARN_LONG") == "" {
		leftout.Note(t, "pairs of a client and a server of both implementations run with TARN_LONG=1 only")
	}
}

// eachPair runs f for each proxy and, in the long form, each pair of a client and a server; otherwise for Tarn's.
func eachPair(t *testing.T, proxies []proxy, f func(t *testing.T, p proxy, server, client int)) {
	noteTarnOnly(t)
	for _, p := range proxies {
		for i := range makers {
			for j := range sides {
				if i+j > 0 && os.Getenv("TARN_LONG") == "" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s to %s", p.name, sides[j].name, makers[i].name), func(t *testing.T) { f(t, p, i, j) })
			}
		}
	}
}

// TestProxied makes the same calls through a proxy with Tarn's client to Tarn's server and with grpc-go's to grpc-go's, in the long form with
// each client to each server: they observe the same.
func TestProxied(t *testing.T) {
	noteTarnOnly(t)
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			type pair struct {
				name string
				client
			}
			var pairs []pair
			for _, m := range makers {
				addr, stop := serve(t, m.make(t, keepalive.ServerParameters{}), "127.0.0.1:0")
				t.Cleanup(func() { stop(false) })
				r := p.run(t, addr)
				for _, s := range sides {
					if s.name != m.name && os.Getenv("TARN_LONG") == "" {
						continue
					}
					pairs = append(pairs, pair{s.name + " to " + m.name, s.dial(t, r.addr, insecure.NewCredentials())})
				}
			}
			for _, f := range facts() {
				var seen []string
				for _, c := range pairs {
					ctx, cancel := context.WithTimeout(bounded(t), 20*time.Second)
					seen = append(seen, f.see(ctx, c.client))
					cancel()
				}
				want := len(seen) - 1
				for i := range seen {
					switch {
					case f.name == "trailers-only":
						continue // the servers differ in a stream without messages (TestEmptyStreamHasAHeader of rpc)
					case strings.HasPrefix(f.name, "a deadline"):
						continue // the server's reset at the deadline, which a proxy makes an error of its own, may be first
					}
					if seen[i] != seen[want] {
						t.Errorf("%s:\n\t%s: %.1000s\n\t%s: %.1000s", f.name, pairs[i].name, seen[i], pairs[want].name, seen[want])
					}
				}
			}
			for _, c := range pairs {
				t.Logf("%s: %d connections", c.name, c.dialled.Load())
			}
		})
	}
}

type duplex = grpc.BidiStreamingClient[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]

// exchange sends a message on a stream and receives one of n bytes.
func exchange(s duplex, n int) error {
	if err := s.Send(&testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{Size: int32(n)}}}); err != nil {
		if err == io.EOF {
			_, err = s.Recv()
		}
		return err
	}
	m, err := s.Recv()
	if err == nil && len(m.GetPayload().GetBody()) != n {
		err = fmt.Errorf("%d bytes", len(m.GetPayload().GetBody()))
	}
	return err
}

// open opens n streams, each of which exchanges a message.
func open(t testing.TB, ctx context.Context, c client, n int) []duplex {
	t.Helper()
	streams := make([]duplex, n)
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			s, err := c.FullDuplexCall(ctx)
			if err == nil {
				err = exchange(s, 100)
			}
			if err != nil {
				t.Errorf("stream %d: %v", i, err)
			}
			streams[i] = s
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return streams
}

// ends does something with each stream at once and counts how that ended.
func ends(streams []duplex, f func(s duplex) error) map[string]int {
	all := make([]string, len(streams))
	var wg sync.WaitGroup
	for i, s := range streams {
		wg.Go(func() { all[i] = code(f(s)) })
	}
	wg.Wait()
	count := map[string]int{}
	for _, c := range all {
		count[c]++
	}
	return count
}

// streamsProxied is how many streams TestProxyStreams has.
const streamsProxied = 1000

// TestProxyStreams has streams through a proxy that reloads its configuration, and to a server that ends: the first costs no stream,
// and the second ends them all, on both sides.
func TestProxyStreams(t *testing.T) {
	eachPair(t, proxies, func(t *testing.T, p proxy, i, j int) {
		ctx := bounded(t)
		svc := &service{}
		addr, stop := serveService(t, makers[i].make(t, keepalive.ServerParameters{}), "127.0.0.1:0", svc)
		r := p.run(t, addr)
		c := sides[j].dial(t, r.addr, insecure.NewCredentials())
		streams := open(t, ctx, c, streamsProxied)
		r.restart(t)
		calls, over := load(ctx, c, grpc.WaitForReady(true))
		until(t, ctx, "another connection", func() bool { return c.dialled.Load() > 1 && calls.Load() > 500 })
		loaded := over()
		if n := ends(streams, func(s duplex) error { return exchange(s, 1000) }); n["OK"] != len(streams) {
			t.Errorf("after the reload: %v", n)
		}
		t.Logf("%d connections, calls meanwhile %v", c.dialled.Load(), loaded)
		if loaded["OK"] == 0 || len(loaded) > 1 {
			t.Errorf("calls ended %v", loaded)
		}
		if n := svc.open.Load(); n != streamsProxied {
			t.Errorf("%d streams are open on the server", n)
		}
		stop(false)
		n := ends(streams, func(s duplex) error { _, err := s.Recv(); return err })
		t.Logf("the server's end: %v", n)
		if n["OK"]+n["EOF"]+n["DeadlineExceeded"] > 0 {
			t.Errorf("the server's end: %v", n)
		}
		if n := svc.open.Load(); n != 0 {
			t.Errorf("%d streams are left on the server", n)
		}
		_, stop = serveService(t, makers[i].make(t, keepalive.ServerParameters{}), addr, svc)
		defer func() { stop(false) }()
		until(t, ctx, "a call", func() bool { _, err := c.EmptyCall(ctx, &testpb.Empty{}); return err == nil })
		// Streams that the client leaves.
		short, cancel := context.WithCancel(ctx)
		streams = open(t, short, c, streamsProxied)
		cancel()
		if n := ends(streams, func(s duplex) error { _, err := s.Recv(); return err }); n["Canceled"] != len(streams) {
			t.Errorf("cancelled: %v", n)
		}
		until(t, ctx, "the end of the handlers", func() bool { return svc.open.Load() == 0 })
	})
}

// TestProxyDeadlines has calls whose handlers wait beyond their deadline: no handler is left. It logs how long after it client and handler
// learn of it, and how many calls the server's reset ended first, which a proxy makes an error of its own.
func TestProxyDeadlines(t *testing.T) {
	eachPair(t, proxies, func(t *testing.T, p proxy, i, j int) {
		ctx := bounded(t)
		svc := &service{}
		addr, stop := serveService(t, makers[i].make(t, keepalive.ServerParameters{}), "127.0.0.1:0", svc)
		defer func() { stop(false) }()
		c := sides[j].dial(t, p.run(t, addr).addr, insecure.NewCredentials())
		if _, err := c.EmptyCall(ctx, &testpb.Empty{}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(500 * time.Millisecond)
		short, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		var wg sync.WaitGroup
		late := make([]time.Duration, 500)
		codes := make([]string, len(late))
		for i := range late {
			wg.Go(func() {
				_, err := c.UnaryCall(with(short, "x-hang", "1"), &testpb.SimpleRequest{Payload: body(i)})
				late[i], codes[i] = time.Since(deadline), code(err)
			})
		}
		wg.Wait()
		count := map[string]int{}
		for _, c := range codes {
			count[c]++
		}
		if count["OK"] > 0 || count["DeadlineExceeded"] == 0 {
			t.Errorf("calls ended %v", count)
		}
		if got := none(ctx, c); got != " ended" {
			t.Error(got)
		}
		var last time.Duration
		for _, d := range late {
			last = max(last, d)
		}
		t.Logf("%v; the last caller learns of it after %v, the last handler after %v", count, last.Round(time.Millisecond), time.Duration(svc.late.Load()).Round(time.Millisecond))
	})
}

// relay is a TCP relay that can stop to forward.
type relay struct {
	addr string
	gate sync.RWMutex // held for writing while nothing is forwarded
}

// newRelay relays to addr until the test ends.
func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: lis.Addr().String()}
	var mu sync.Mutex
	var conns []net.Conn
	var wg sync.WaitGroup
	t.Cleanup(func() {
		lis.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	half := func(from, to net.Conn) {
		b := make([]byte, 16<<10)
		for {
			n, err := from.Read(b)
			r.gate.RLock()
			if n > 0 {
				to.Write(b[:n])
			}
			r.gate.RUnlock()
			if err != nil {
				to.Close()
				from.Close()
				return
			}
		}
	}
	wg.Go(func() {
		for {
			front, err := lis.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", to)
			if err != nil {
				front.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, front, back)
			mu.Unlock()
			wg.Go(func() { half(front, back) })
			wg.Go(func() { half(back, front) })
		}
	})
	return r
}

// TestProxyStalledServer has a server from which nothing comes any more, and to which nothing goes: calls end at their deadline. When it
// goes on, so do calls, and no handler is left.
func TestProxyStalledServer(t *testing.T) {
	eachPair(t, proxies, func(t *testing.T, p proxy, i, j int) {
		ctx := bounded(t)
		svc := &service{}
		addr, stop := serveService(t, makers[i].make(t, keepalive.ServerParameters{}), "127.0.0.1:0", svc)
		defer func() { stop(false) }()
		between := newRelay(t, addr)
		c := sides[j].dial(t, p.run(t, between.addr).addr, insecure.NewCredentials())
		long, cancel := context.WithCancel(ctx)
		defer cancel()
		streams := open(t, long, c, 100)
		between.gate.Lock()
		deadline := time.Now().Add(500 * time.Millisecond)
		short, cancelShort := context.WithDeadline(ctx, deadline)
		defer cancelShort()
		var wg sync.WaitGroup
		late := make([]time.Duration, 64)
		for i := range late {
			wg.Go(func() {
				_, err := c.UnaryCall(short, &testpb.SimpleRequest{Payload: body(i * 10_000)})
				if late[i] = time.Since(deadline); code(err) != "DeadlineExceeded" {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		between.gate.Unlock()
		if n := ends(streams, func(s duplex) error { return exchange(s, 1000) }); n["OK"] != len(streams) {
			t.Errorf("streams after the stall: %v", n)
		}
		if got := none(ctx, c); got != " ended" {
			t.Error(got)
		}
		cancel()
		until(t, ctx, "the end of the handlers", func() bool { return svc.open.Load() == 0 })
		var last time.Duration
		for _, d := range late {
			last = max(last, d)
		}
		t.Logf("the last caller learns of the deadline after %v", last.Round(time.Millisecond))
	})
}

// TestForwarderTimeouts has HAProxy forward bytes, and end connections that are idle for 300 ms: streams end with UNAVAILABLE on both
// sides, and later calls succeed.
func TestForwarderTimeouts(t *testing.T) {
	var forwarders []proxy
	for _, side := range []string{"client", "server"} {
		forwarders = append(forwarders, proxy{name: "haproxy, timeout " + side, command: haproxy("tcp", "", "timeout "+side+" 300ms")})
	}
	eachPair(t, forwarders, func(t *testing.T, p proxy, i, j int) {
		ctx := bounded(t)
		svc := &service{}
		addr, stop := serveService(t, makers[i].make(t, keepalive.ServerParameters{}), "127.0.0.1:0", svc)
		defer func() { stop(false) }()
		c := sides[j].dial(t, p.run(t, addr).addr, insecure.NewCredentials())
		for range 3 {
			all := make([]string, 100)
			var wg sync.WaitGroup
			for i := range all {
				wg.Go(func() {
					s, err := c.FullDuplexCall(ctx, grpc.WaitForReady(true))
					if err == nil {
						err = exchange(s, 100)
					}
					if err == nil { // otherwise 300 ms have passed already
						_, err = s.Recv()
					}
					all[i] = code(err)
				})
			}
			wg.Wait()
			for i, end := range all {
				if end != "Unavailable" {
					t.Errorf("stream %d ended with %s", i, end)
				}
			}
			until(t, ctx, "the end of the handlers", func() bool { return svc.open.Load() == 0 })
			until(t, ctx, "a call", func() bool {
				_, err := c.EmptyCall(ctx, &testpb.Empty{}, grpc.WaitForReady(true))
				return err == nil
			})
		}
	})
}
