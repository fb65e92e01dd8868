package rpc_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// stalledCalls are three calls on a connection: one whose handler waits, one whose client sends
// and one whose handler sends, as much as they can.
type stalledCalls struct {
	mu      sync.Mutex
	since   time.Time
	calls   map[string]callEnd // as the clients see them
	handled map[string]callEnd // as the handlers do
	clients sync.WaitGroup
	begun   sync.WaitGroup // handlers
	servers sync.WaitGroup
	size    int // of the messages
}

// callEnd is how a call ended and how long after the fault.
type callEnd struct {
	code  codes.Code
	after time.Duration
}

func newStalledCalls(kind faultnet.Kind) *stalledCalls {
	s := &stalledCalls{calls: map[string]callEnd{}, handled: map[string]callEnd{}, size: 100_000}
	if kind == faultnet.Memory || kind == faultnet.MemoryTLS {
		s.size = 20_000 // more than the buffers of such a connection hold
	}
	return s
}

func (s *stalledCalls) note(m map[string]callEnd, name string, code codes.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m[name] = callEnd{code, time.Since(s.since)}
}

// faulted notes that the fault happens now.
func (s *stalledCalls) faulted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Now()
}

// service is what the calls are made to. The handlers' ends are noted with the code of their contexts.
func (s *stalledCalls) service() *testService {
	handled := func(ctx context.Context, name string) {
		<-ctx.Done()
		s.note(s.handled, name, status.FromContextError(ctx.Err()).Code())
		s.servers.Done()
	}
	return &testService{
		unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			s.begun.Done()
			handled(ctx, "waits")
			return nil, ctx.Err()
		},
		duplex: func(st pb.TestService_FullDuplexCallServer) error {
			in, err := st.Recv()
			if err != nil {
				return err
			}
			s.begun.Done()
			if len(in.ResponseParameters) == 0 {
				handled(st.Context(), "client sends")
				return st.Context().Err()
			}
			for err == nil {
				err = st.Send(&pb.StreamingOutputCallResponse{Payload: payload(s.size)})
			}
			handled(st.Context(), "server sends")
			return err
		},
	}
}

// start makes the calls and returns when their handlers run.
func (s *stalledCalls) start(t *testing.T, c pb.TestServiceClient) {
	ctx := context.Background()
	s.begun.Add(3)
	s.servers.Add(3)
	s.clients.Add(3)
	go func() {
		defer s.clients.Done()
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{})
		s.note(s.calls, "waits", status.Code(err))
	}()
	sends, err := c.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := sends.Send(&pb.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer s.clients.Done()
		var err error
		for err == nil {
			err = sends.Send(&pb.StreamingOutputCallRequest{Payload: payload(s.size)})
		}
		if err == io.EOF {
			_, err = sends.Recv()
		}
		s.note(s.calls, "client sends", status.Code(err))
	}()
	reads, err := c.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := reads.Send(&pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{}}}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer s.clients.Done()
		var err error
		for err == nil {
			_, err = reads.Recv()
			<-time.After(time.Second / 10) // or it would read without end until the fault
		}
		s.note(s.calls, "server sends", status.Code(err))
	}()
	s.begun.Wait()
}

// fault is what happens to a connection.
type fault struct {
	name string
	do   func(*faultnet.Link)
}

var (
	noFault  = fault{"nothing", func(*faultnet.Link) {}}
	stall    = fault{"stall", (*faultnet.Link).Stall}
	toClient = fault{"stall to the client", func(l *faultnet.Link) { l.ToClient.Stall() }}
	toServer = fault{"stall to the server", func(l *faultnet.Link) { l.ToServer.Stall() }}
	stallFIN = fault{"stall, FIN", func(l *faultnet.Link) { stallThen(l, faultnet.FIN) }}
	stallRST = fault{"stall, RST", func(l *faultnet.Link) { stallThen(l, faultnet.RST) }}
)

// stallThen stalls l and breaks it after half a second.
func stallThen(l *faultnet.Link, how faultnet.Ending) {
	l.Stall()
	<-time.After(time.Second / 2)
	l.Break(how)
}

// keeping is a setting that ends a connection which has stalled.
type keeping struct {
	name   string
	s      settings
	faults []fault
	ends   []string      // whose calls: the client's, the server's
	bound  time.Duration // after the fault, in fake time
}

const (
	theClient = "client"
	theServer = "server"
)

// TestKeepaliveUnderAFullSocket ends connections that have stalled, and whose sockets are full, by
// keepalive, by age and by cuts, in fake time. Each call ends with UNAVAILABLE, as between grpc-go's
// client and server, and each handler's context with Canceled, within bounds if the side that has to
// notice is Tarn's. (grpc-go's server does not end an old connection whose socket is full.)
func TestKeepaliveUnderAFullSocket(t *testing.T) {
	t.Parallel()
	faults := []fault{stall, toClient, toServer, stallFIN, stallRST}
	aged := settings{params: keepalive.ServerParameters{MaxConnectionAge: 30 * time.Second, MaxConnectionAgeGrace: 10 * time.Second}}
	for _, k := range []keeping{
		{"client's keepalive", settings{pings: keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}}, faults, []string{theClient}, 20 * time.Second},
		{"server's keepalive", settings{params: keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}}, faults, []string{theServer}, 20 * time.Second},
		{"age and grace", aged, faults, []string{theServer}, 44 * time.Second}, // the age varies by a tenth
		{"age and grace", aged, []fault{noFault}, []string{theClient, theServer}, 46 * time.Second},
	} {
		for _, kind := range []faultnet.Kind{faultnet.Memory, faultnet.MemoryTLS} {
			for _, f := range k.faults {
				for _, m := range allMakers {
					t.Run(fmt.Sprint(k.name, "/", kind, "/", f.name, "/", m), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { k.run(t, kind, f, m, 2*time.Minute) })
					})
				}
			}
		}
	}
}

// TestKeepaliveUnderAFullSocketForReal does the same with sockets, and the shortest times that both
// take. The client's is ten seconds, and runs with TARN_LONG=1, as do all faults with each kind of connection: the usual form has all of them
// with TCP, and the short form one of them with each kind.
func TestKeepaliveUnderAFullSocketForReal(t *testing.T) {
	t.Parallel()
	faults := []fault{stall, toClient, toServer, stallFIN, stallRST}
	all := []keeping{
		{"server's keepalive", settings{params: keepalive.ServerParameters{Time: time.Second, Timeout: time.Second}}, faults, []string{theServer}, hang},
		{"age and grace", settings{params: keepalive.ServerParameters{MaxConnectionAge: time.Second, MaxConnectionAgeGrace: time.Second / 2}}, faults, []string{theServer}, hang},
	}
	long := os.Getenv("TARN_LONG") != ""
	var alongside together
	defer alongside.wait()
	if long {
		all = append(all, keeping{"client's keepalive", settings{pings: keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}}, faults, []string{theClient}, 2 * hang})
	}
	for _, k := range all {
		for _, kind := range []faultnet.Kind{faultnet.TCP, faultnet.TLS, faultnet.Wrapped} {
			some := k.faults
			if testing.Short() || !long && kind != faultnet.TCP {
				some = some[:1]
			}
			for _, f := range some {
				alongside.run(t, fmt.Sprint(k.name, "/", kind, "/", f.name), func(t *testing.T) {
					k.run(t, kind, f, makers{ofTarn, ofTarn}, k.bound)
				})
			}
		}
	}
}

// run makes calls, has f happen, and checks how they end. What has not ended after limit is cut.
func (k *keeping) run(t *testing.T, kind faultnet.Kind, f fault, m makers, limit time.Duration) {
	s := newStalledCalls(kind)
	c := newCouple(t, kind, m, s.service(), k.s)
	s.faulted() // a call that an early end of the connection takes has a time, too
	s.start(t, c.calls)
	s.faulted()
	c.each(f.do)
	var ended sync.WaitGroup
	for _, side := range k.ends {
		ended.Add(1)
		go func() {
			defer ended.Done()
			if side == theClient {
				s.clients.Wait()
			} else {
				s.servers.Wait()
			}
		}()
	}
	all := make(chan struct{})
	go func() { ended.Wait(); close(all) }()
	cut := time.NewTimer(limit)
	defer cut.Stop()
	select {
	case <-all:
	case <-cut.C:
	}
	c.each(func(l *faultnet.Link) { l.Break(faultnet.RST) })
	s.clients.Wait()
	s.servers.Wait()
	check := func(side string, by implementation, ends map[string]callEnd, want codes.Code) {
		for name, e := range ends {
			if e.code != want {
				t.Errorf("%s, %s: %v, want %v", side, name, e.code, want)
			}
			if by == ofTarn && slices.Contains(k.ends, side) && e.after > k.bound {
				t.Errorf("%s, %s: ended after %v, which is more than %v", side, name, e.after, k.bound)
			}
		}
	}
	check(theClient, m.client, s.calls, codes.Unavailable)
	check(theServer, m.server, s.handled, codes.Canceled)
}
