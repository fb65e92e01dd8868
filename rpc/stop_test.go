package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// stopBound is how long Stop may take in fake time: what an aborted connection has to send its
// GOAWAY, and to close.
const stopBound = time.Second

// TestStopWithCalls stops a server while handlers wait, read half of what is sent, and send, with
// and without a full socket, also after ten seconds of GracefulStop. Tarn's ends in bound, and the
// codes are those of grpc-go's server.
func TestStopWithCalls(t *testing.T) {
	for _, kind := range []faultnet.Kind{faultnet.Memory, faultnet.MemoryTLS} {
		for _, f := range []fault{noFault, stall, toClient, toServer} {
			for _, gracefully := range []time.Duration{0, 10 * time.Second} {
				for _, m := range allMakers {
					t.Run(fmt.Sprint(kind, "/", f.name, "/", gracefully, "/", m), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							s := newStalledCalls(kind)
							c := newCouple(t, kind, m, s.service(), settings{})
							s.faulted()
							s.start(t, c.calls)
							c.each(f.do)
							graceful := make(chan struct{})
							go func() {
								defer close(graceful)
								if gracefully > 0 {
									c.server.GracefulStop()
								}
							}()
							<-time.After(gracefully)
							select {
							case <-graceful:
								if gracefully > 0 {
									t.Error("GracefulStop has ended before the calls")
								}
							default:
							}
							s.faulted()
							stopped := make(chan time.Time, 1)
							go func() {
								c.server.Stop()
								stopped <- time.Now()
							}()
							<-time.After(time.Minute)
							c.each(func(l *faultnet.Link) { l.Break(faultnet.RST) })
							s.clients.Wait()
							s.servers.Wait()
							<-graceful
							if d := (<-stopped).Sub(s.since); m.server == ofTarn && d > stopBound {
								t.Errorf("Stop took %v", d)
							}
							for name, e := range s.calls {
								if e.code != codes.Unavailable {
									t.Errorf("client, %s: %v", name, e.code)
								}
							}
							for name, e := range s.handled {
								if e.code != codes.Canceled {
									t.Errorf("handler, %s: %v", name, e.code)
								}
							}
						})
					})
				}
			}
		}
	}
}

// TestStopWithinGreetingAndHeaders stops a server, at once or gracefully, whose client has come no
// further than a part of its first bytes.
func TestStopWithinGreetingAndHeaders(t *testing.T) {
	var greeting, block bytes.Buffer
	fr := http2.NewFramer(&greeting, nil)
	greeting.WriteString(http2.ClientPreface)
	fr.WriteSettings()
	afterSettings := greeting.Len()
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: "/grpc.testing.TestService/UnaryCall"}, {Name: "content-type", Value: "application/grpc"}} {
		enc.WriteField(f)
	}
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()})
	for name, n := range map[string]int{
		"nothing sent": 0, "within the preface": 10, "within SETTINGS": afterSettings - 4, "after SETTINGS": afterSettings,
		"within HEADERS": afterSettings + 20, "before CONTINUATION": greeting.Len(),
	} {
		for _, kind := range []faultnet.Kind{faultnet.Memory, faultnet.Pipe} {
			for _, graceful := range []string{"Stop", "GracefulStop"} {
				t.Run(fmt.Sprint(name, "/", kind, "/", graceful), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newCouple(t, kind, makers{ofTarn, ofTarn}, &testService{}, settings{})
						nc, err := c.dial(t)(context.Background(), "")
						if err != nil {
							t.Fatal(err)
						}
						go io.Copy(io.Discard, nc)
						go nc.Write(greeting.Bytes()[:n])
						synctest.Wait()
						begun := time.Now()
						bound := stopBound
						if graceful == "Stop" {
							c.server.Stop()
						} else {
							bound = 2 * time.Minute // for a connection that does not finish its greeting
							c.server.GracefulStop()
						}
						if d := time.Since(begun); d > bound {
							t.Errorf("it took %v", d)
						}
						nc.Close()
					})
				})
			}
		}
	}
}

// TestStopBeforeTrailersLeave stops a server whose handlers have returned while the socket is full, so that their
// messages and trailers wait. Stop ends at once. GracefulStop waits until the socket drains, and then all calls have
// succeeded; Stop ends that, too.
func TestStopBeforeTrailersLeave(t *testing.T) {
	for _, kind := range []faultnet.Kind{faultnet.Memory, faultnet.MemoryTLS} {
		for _, how := range []string{"Stop", "GracefulStop", "both"} {
			for _, m := range allMakers {
				t.Run(fmt.Sprint(kind, "/", how, "/", m), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						a := newAnsweredCalls(t, kind, m)
						synctest.Wait()
						stops, stopped := 1, make(chan time.Time, 2)
						begun := time.Now()
						stop := func(f func()) { f(); stopped <- time.Now() }
						switch how {
						case "Stop":
							go stop(a.server.Stop)
						default:
							go stop(a.server.GracefulStop)
						}
						<-time.After(10 * time.Second)
						if how != "Stop" {
							select {
							case at := <-stopped:
								t.Errorf("GracefulStop took %v with answers unsent", at.Sub(begun))
								stops--
							default:
							}
						}
						if how == "both" {
							stops++
							begun = time.Now()
							go stop(a.server.Stop)
							<-time.After(10 * time.Second)
						}
						begin := time.Now()
						a.each(func(l *faultnet.Link) { l.Resume() })
						want := codes.Unavailable
						if how == "GracefulStop" {
							want = codes.OK
						}
						a.wantEnds(want)
						for range stops {
							at := <-stopped
							switch {
							case m.server != ofTarn: // grpc-go's waits for what it writes
							case how == "GracefulStop":
								if d := at.Sub(begin); d > 5*time.Second {
									t.Errorf("GracefulStop took %v after the socket drained", d)
								}
							case at.Sub(begun) > stopBound:
								t.Errorf("%s took %v", how, at.Sub(begun))
							}
						}
					})
				})
			}
		}
	}
}

// TestStopBeforeTrailersLeaveForReal does the same with sockets.
func TestStopBeforeTrailersLeaveForReal(t *testing.T) {
	for _, kind := range []faultnet.Kind{faultnet.TCP, faultnet.TLS, faultnet.Wrapped} {
		for _, how := range []string{"Stop", "GracefulStop"} {
			t.Run(fmt.Sprint(kind, "/", how), func(t *testing.T) {
				t.Parallel() // each waits most of the time
				a := newAnsweredCalls(t, kind, makers{ofTarn, ofTarn})
				if how == "Stop" {
					within(t, "Stop", a.server.Stop)
					a.each(func(l *faultnet.Link) { l.Resume() })
					within(t, "the calls", func() { a.wantEnds(codes.Unavailable) })
					return
				}
				graceful := make(chan struct{})
				go func() { defer close(graceful); a.server.GracefulStop() }()
				a.each(func(l *faultnet.Link) { l.Resume() })
				within(t, "the calls", func() { a.wantEnds(codes.OK) })
				within(t, "GracefulStop", func() { <-graceful })
			})
		}
	}
}

// answeredCalls are unary calls whose handlers have returned while a stream fills the socket and nothing drains:
// their answers and trailers wait.
type answeredCalls struct {
	*couple
	t    *testing.T
	ends chan error
}

const (
	manyAnswers = 16
	longAnswer  = 10_000  // each
	fillMessage = 100_000 // of the stream
)

func newAnsweredCalls(t *testing.T, kind faultnet.Kind, m makers) *answeredCalls {
	var begun, returned sync.WaitGroup
	stalled, filling := make(chan struct{}), make(chan struct{})
	messages := 30 // more than sockets, relay and server hold
	if kind == faultnet.Memory || kind == faultnet.MemoryTLS {
		messages = 8
	}
	svc := &testService{
		unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			begun.Done()
			<-filling
			returned.Done()
			return &pb.SimpleResponse{Payload: payload(longAnswer)}, nil
		},
		duplex: func(st pb.TestService_FullDuplexCallServer) error {
			begun.Done()
			<-stalled
			var err error
			for i := 0; i < messages && err == nil; i++ {
				if err = st.Send(&pb.StreamingOutputCallResponse{Payload: payload(fillMessage)}); i == 0 {
					close(filling)
				}
			}
			return err
		},
	}
	a := &answeredCalls{newCouple(t, kind, m, svc, settings{window: 16 << 20}), t, make(chan error, manyAnswers+1)}
	begun.Add(manyAnswers + 1)
	returned.Add(manyAnswers)
	for range manyAnswers {
		go func() {
			_, err := a.calls.UnaryCall(context.Background(), &pb.SimpleRequest{})
			a.ends <- err
		}()
	}
	go func() {
		st, err := a.calls.FullDuplexCall(context.Background())
		for err == nil {
			_, err = st.Recv()
		}
		if err == io.EOF {
			err = nil
		}
		a.ends <- err
	}()
	begun.Wait()
	a.each(func(l *faultnet.Link) { l.ToClient.Stall() })
	close(stalled)
	returned.Wait()
	return a
}

// wantEnds waits for all calls. Where they are to fail, answers that had left may have arrived.
func (a *answeredCalls) wantEnds(want codes.Code) {
	a.t.Helper()
	failed := 0
	for range cap(a.ends) {
		if got := status.Code(<-a.ends); got != codes.OK {
			if failed++; got != want {
				a.t.Errorf("a call ended with %v, not %v", got, want)
			}
		}
	}
	if want != codes.OK && failed == 0 {
		a.t.Error("no call failed")
	}
}

// TestStopBetweenAccepts: Serve, which waits after a temporary failure to accept, returns at once when the server is stopped.
func TestStopBetweenAccepts(t *testing.T) {
	for name, stop := range map[string]func(*rpc.Server){"Stop": (*rpc.Server).Stop, "GracefulStop": (*rpc.Server).GracefulStop} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
				served := make(chan error, 1)
				go func() { served <- s.Serve(&exhausted{newPipes()}) }()
				<-time.After(4500 * time.Millisecond) // it waits for a second now
				began := time.Now()
				stop(s)
				if err := <-served; err != nil || time.Since(began) > 0 {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// exhausted is a listener of a process without free file descriptors.
type exhausted struct{ *pipes }

func (l *exhausted) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
}

// TestNoIdleWorkersWithoutConnections: when its last connection has ended, a server that still accepts has no goroutine that waits for
// requests, because programs' tests look for those that are left. The next connection has them again.
func TestNoIdleWorkersWithoutConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
		pb.RegisterTestServiceServer(s, &testService{})
		lis := servePiped(t, s)
		for range 2 {
			cc, err := rpc.NewClient("passthrough:///pipe", rpc.WithContextDialer(lis.dial), rpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pb.NewTestServiceClient(cc).EmptyCall(t.Context(), &pb.Empty{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := workerStacks(); n != 1 {
				t.Errorf("%d workers after a call, want 1", n)
			}
			cc.Close()
			synctest.Wait()
			if n := workerStacks(); n != 0 {
				t.Errorf("%d workers without a connection, want none", n)
			}
		}
	})
}

// workerStacks returns how many goroutines of the test's bubble run or wait for handlers.
func workerStacks() (n int) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(g, "synctest bubble") && strings.Contains(g, "/internal/workers.") {
			n++
		}
	}
	return n
}
