package rpc_test

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/guard"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// read returns a copy of s; false: to read it faults.
func read(s string) (copied string, ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a fault is a panic
	defer func() {
		if e := recover(); e != nil {
			if _, fault := e.(interface{ Addr() uintptr }); !fault {
				panic(e)
			}
		}
	}()
	return strings.Clone(s), true
}

// guarded is the handler of streams whose messages it keeps.
type guarded struct {
	t *testing.T
	n int // bytes of each text

	mu   sync.Mutex
	kept []string
}

// text is that of the i-th message of a stream.
func (g *guarded) text(i int) string { return strings.Repeat(string(rune('a'+i)), g.n) }

// serve receives messages, of which it leaves those from the fifth on.
func (g *guarded) serve(s pb.TestService_FullDuplexCallServer) error {
	var own []string
	for i := range 4 {
		in, err := s.Recv()
		for k, old := range own {
			switch got, ok := read(old); {
			case ok && got != g.text(k):
				g.t.Errorf("message %d has changed after RecvMsg %d: %.20q", k, i, got)
			case ok && g.n > 100_000: // its memory is its own
				g.t.Errorf("message %d can be read after RecvMsg %d", k, i)
			}
		}
		if err != nil {
			break
		}
		text := in.ResponseStatus.Message
		if got, ok := read(text); !ok || got != g.text(i) {
			g.t.Errorf("message %d cannot be read before the next RecvMsg", i)
		}
		if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
		own = append(own, text)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept = append(g.kept, own...)
	return nil
}

// TestLentStringsOfStreamsAreGuarded: on a pool with guard pages, a string of a stream's message can be read until the next RecvMsg. After that it faults or is as
// it was, while what arrived with it is in use, and in the end each one faults; with messages that arrive together or one by one, in streams that their
// client ends or their handler, and in each way.
func TestLentStringsOfStreamsAreGuarded(t *testing.T) {
	if !guard.Supported {
		t.Skip("no page protection on this platform")
	}
	for _, w := range lentWays {
		if strings.HasSuffix(w.name, "h2http") { // the memory is of its pool
			continue
		}
		for _, n := range []int{1, 100, 5000, 300000} {
			t.Run(fmt.Sprintf("%s/%d bytes", w.name, n), func(t *testing.T) {
				g := &guarded{t: t, n: n}
				svc := &testService{duplex: g.serve}
				opts := []rpc.ServerOption{rpc.Pool(tarntest.NewGuardedPool(t)), rpc.LendStrings(duplexPath), rpc.CheckLent(0, nil)}
				var addr string
				var server *rpc.Server
				if w.http == nil {
					server, addr = startTarn(t, svc, opts...)
				} else {
					server = rpc.NewServer(append(opts, rpc.WaitForHandlers(true))...)
					pb.RegisterTestServiceServer(server, svc)
					addr = w.http(t, server)
					t.Cleanup(server.Stop)
				}
				c := pb.NewTestServiceClient(w.dial(t, addr))
				for _, messages := range []int{2, 5} { // the client ends the stream, and the handler does
					for _, together := range []int{1, messages} {
						g.converse(c, messages, together)
					}
				}
				server.Stop() // also the connections: nothing has arrived with what was kept any more
				if len(g.kept) != 2*2+2*4 {
					t.Errorf("%d messages", len(g.kept))
				}
				for i, s := range g.kept {
					if _, ok := read(s); ok {
						t.Errorf("kept message %d can be read", i)
					}
				}
			})
		}
	}
}

// converse sends messages on a stream, and receives as many after each together of them.
func (g *guarded) converse(c pb.TestServiceClient, messages, together int) {
	g.t.Helper()
	s, err := c.FullDuplexCall(ctxFor(g.t))
	if err != nil {
		g.t.Fatal(err)
	}
	for i := range messages {
		err := s.Send(&pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Message: g.text(i)}})
		if err != nil && err != io.EOF { // the handler may have left
			g.t.Fatal(err)
		}
		if together == 1 && i < 4 {
			if _, err := s.Recv(); err != nil {
				g.t.Error(err)
			}
		}
	}
	if err := s.CloseSend(); err != nil {
		g.t.Fatal(err)
	}
	for {
		if _, err := s.Recv(); err == io.EOF {
			return
		} else if err != nil {
			g.t.Error(err)
			return
		}
	}
}
