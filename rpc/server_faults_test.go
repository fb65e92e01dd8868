package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/experimental"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// serverFault is code of the program's that misbehaves once, at one place.
type serverFault struct {
	place, kind string
	once        sync.Once
	mu          sync.Mutex
	srv         *rpc.Server
	armed       bool
	reached     chan struct{} // closed there
	release     chan struct{} // lets what blocks go on
}

// arm makes the fault happen, once.
func (u *serverFault) arm() { u.once.Do(func() { u.set(true) }) }

func (u *serverFault) set(armed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.armed = armed
}

var errFault = errors.New("the program's")

// at is called at a place. An error is for those that can return one.
func (u *serverFault) at(place string) error {
	u.mu.Lock()
	if place != u.place || !u.armed {
		u.mu.Unlock()
		return nil
	}
	u.armed = false
	srv := u.srv
	u.mu.Unlock()
	close(u.reached)
	switch u.kind {
	case "blocks":
		<-u.release
	case "panics":
		panic("the program's")
	case "exits":
		runtime.Goexit()
	case "stops":
		srv.Stop()
	case "fails":
		return errFault
	case "writes less":
		return io.ErrShortWrite
	}
	return nil
}

func (u *serverFault) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	u.at("TagRPC")
	return ctx
}
func (u *serverFault) HandleRPC(_ context.Context, s stats.RPCStats) {
	u.at(strings.TrimPrefix(fmt.Sprintf("%T", s), "*"))
}
func (u *serverFault) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (u *serverFault) HandleConn(context.Context, stats.ConnStats)                       {}

// faultyCodec is grpc-go's, with a fault.
type faultyCodec struct {
	encoding.CodecV2
	u *serverFault
}

func (c faultyCodec) Marshal(v any) (mem.BufferSlice, error) {
	c.u.at("Marshal")
	return c.CodecV2.Marshal(v)
}

func (c faultyCodec) Unmarshal(d mem.BufferSlice, v any) error {
	c.u.arm() // from here on it is the server that compresses
	c.u.at("Unmarshal")
	return c.CodecV2.Unmarshal(d, v)
}

// faultyCompressor compresses nothing, with the fault of the test that runs.
type faultyCompressor struct{ now atomic.Pointer[serverFault] }

func (*faultyCompressor) Name() string { return "faulty" }

func (c *faultyCompressor) Compress(w io.Writer) (io.WriteCloser, error) {
	return faultyWriter{w, c.now.Load()}, c.now.Load().at("Compress")
}

func (c *faultyCompressor) Decompress(r io.Reader) (io.Reader, error) {
	return faultyReader{r, c.now.Load()}, c.now.Load().at("Decompress")
}

type faultyWriter struct {
	w io.Writer
	u *serverFault
}

// Write, when it is to write less, returns no error, which io.Writer forbids.
func (w faultyWriter) Write(p []byte) (int, error) {
	switch err := w.u.at("Write"); err {
	case nil:
		return w.w.Write(p)
	case io.ErrShortWrite:
		return w.w.Write(p[:len(p)/2])
	default:
		return 0, err
	}
}

func (w faultyWriter) Close() error { return w.u.at("Close") }

type faultyReader struct {
	r io.Reader
	u *serverFault
}

func (r faultyReader) Read(p []byte) (int, error) {
	if err := r.u.at("Read"); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// faultyService has a fault in its handlers.
type faultyService struct {
	testService
	u *serverFault
}

func (s *faultyService) UnaryCall(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.u.at("handler")
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

func (s *faultyService) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, out pb.TestService_StreamingOutputCallServer) error {
	s.u.at("handler")
	return out.Send(&pb.StreamingOutputCallResponse{Payload: payload(100)})
}

// TestFaultsOfServersCode: code of the program's that blocks, panics, ends its goroutine, stops the server or fails holds its own call only: other
// calls of the same client and of another go on, and the server stops. A tap of gRPC that blocks holds the calls of its connection: it runs on
// the goroutine that reads it, as in grpc-go. A stats handler that panics ends the process, as there.
func TestFaultsOfServersCode(t *testing.T) {
	places := []string{"handler", "interceptor", "tap", "Marshal", "Unmarshal", "Compress", "Write", "Close", "Decompress", "Read", "TagRPC",
		"stats.InHeader", "stats.Begin", "stats.InPayload", "stats.OutHeader", "stats.OutPayload", "stats.OutTrailer", "stats.End"}
	carriers := []struct {
		name string
		p    rpc.Protocol
		http func(*testing.T, http.Handler) string // nil: Serve
	}{
		{"gRPC", rpc.GRPC, nil}, {"gRPC-Web", rpc.GRPCWeb, nil}, {"Connect", rpc.Connect, nil},
		{"gRPC by net/http", rpc.GRPC, serveHTTP2}, {"gRPC by h2http", rpc.GRPC, serveH2HTTP}, {"Connect by h2http", rpc.Connect, serveH2HTTP},
	}
	compressor := new(faultyCompressor)
	encoding.RegisterCompressor(compressor)
	for _, carrier := range carriers {
		for _, place := range places {
			kinds := []string{"blocks", "panics", "exits", "stops"}
			if slices.Contains([]string{"Compress", "Write", "Close", "Decompress", "Read"}, place) {
				kinds = append(kinds, "fails")
			}
			if place == "Write" {
				kinds = append(kinds, "writes less")
			}
			for _, kind := range kinds {
				ofStats := place == "TagRPC" || strings.HasPrefix(place, "stats.")
				switch {
				case kind == "panics" && ofStats:
					continue
				}
				reading := place == "tap" && carrier.http == nil && carrier.p == rpc.GRPC
				if reading && (kind == "exits" || kind == "stops") {
					continue // neither the connection nor Stop would end, as InTapHandle says
				}
				for _, method := range []string{"unary", "stream"} {
					t.Run(strings.Join([]string{carrier.name, place, kind, method}, "/"), func(t *testing.T) {
						u := &serverFault{place: place, kind: kind, reached: make(chan struct{}), release: make(chan struct{})}
						if !slices.Contains([]string{"Compress", "Write", "Close"}, place) {
							u.arm()
						}
						compressor.now.Store(u)
						pool := tarntest.NewPool(t)
						s := rpc.NewServer(rpc.Pool(pool), rpc.WaitForHandlers(kind != "stops"), rpc.StatsHandler(u), rpc.PanicHandler(func(string, any, []byte) {}),
							rpc.ForceServerCodecV2(faultyCodec{encoding.GetCodecV2(proto.Name), u}),
							rpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) { u.at("tap"); return ctx, nil }),
							rpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
								u.at("interceptor")
								return h(ctx, req)
							}),
							rpc.StreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
								u.at("interceptor")
								return h(srv, ss)
							}))
						u.srv = s
						pb.RegisterTestServiceServer(s, &faultyService{u: u})
						addr := ""
						if carrier.http == nil {
							addr = serve(t, s)
						} else {
							addr = carrier.http(t, s)
							t.Cleanup(s.Stop)
						}
						client := func() pb.TestServiceClient {
							if carrier.p != rpc.GRPC {
								addr = "http://" + strings.TrimPrefix(addr, "http://")
							}
							return pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(carrier.p),
								rpc.WithDefaultCallOptions(grpc.UseCompressor("faulty"), experimental.AcceptCompressors("faulty"))))
						}
						call := func(ctx context.Context, c pb.TestServiceClient) error {
							if method == "unary" {
								_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(100)})
								return err
							}
							st, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{Payload: payload(100)})
							for err == nil {
								_, err = st.Recv()
							}
							if err == io.EOF {
								err = nil
							}
							return err
						}
						ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
						defer cancel()
						c := client()
						first := make(chan error, 1)
						go func() { first <- call(ctx, c) }()
						select {
						case <-u.reached:
						case <-ctx.Done():
							t.Fatal("the place was not reached")
						}
						if kind != "stops" {
							others := []pb.TestServiceClient{client()}
							if !reading || kind == "panics" {
								others = append(others, c)
							}
							for _, other := range others {
								if err := call(ctx, other); err != nil {
									t.Errorf("another call: %v", err)
								}
							}
						}
						close(u.release)
						err := <-first
						if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
							t.Errorf("the call does not end: %v", err)
						}
						if (kind == "fails" || kind == "writes less") && err == nil {
							t.Error("the call succeeds")
						}
						if kind == "writes less" && status.Code(err) != codes.Internal {
							t.Errorf("%v, want INTERNAL", err)
						}
						stopped := make(chan struct{})
						go func() {
							defer close(stopped)
							s.Stop()
						}()
						select {
						case <-stopped:
						case <-ctx.Done():
							t.Error("Stop does not return")
						}
					})
				}
			}
		}
	}
}

// exitingCreds are insecure, and the first handshake ends its goroutine.
type exitingCreds struct {
	credentials.TransportCredentials
	u *serverFault
}

func (c exitingCreds) ServerHandshake(nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c.u.at("handshake")
	return c.TransportCredentials.ServerHandshake(nc)
}

func (c exitingCreds) Clone() credentials.TransportCredentials { return c }

// connFault has its fault in the events of connections.
type connFault struct{ *serverFault }

func (u connFault) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	u.at("TagConn")
	return ctx
}

func (u connFault) HandleConn(_ context.Context, s stats.ConnStats) {
	u.at(strings.TrimPrefix(fmt.Sprintf("%T", s), "*"))
}

// TestFaultsOfServersConnections: the program's code that blocks, ends its goroutine or stops the server while a connection is set up or
// has ended holds that connection alone: calls on others go on, and Stop returns before what blocks does. (grpc-go's waits in each case.)
func TestFaultsOfServersConnections(t *testing.T) {
	faultnet.NeedsTCP(t, "the test dials by itself")
	for _, place := range []string{"handshake", "TagConn", "stats.ConnBegin", "stats.ConnEnd"} {
		for _, first := range []string{http2.ClientPreface, "GET / HTTP/1.1\r\n"} {
			name, _, _ := strings.Cut(first, "\r")
			if place == "handshake" && first != http2.ClientPreface {
				continue // it has none
			}
			for _, kind := range []string{"exits", "blocks", "stops"} {
				t.Run(place+"/"+name+"/"+kind, func(t *testing.T) {
					u := &serverFault{place: place, kind: kind, reached: make(chan struct{}), release: make(chan struct{})}
					s, addr := startTarn(t, &testService{}, rpc.WaitForHandlers(false), rpc.Creds(exitingCreds{insecure.NewCredentials(), u}), rpc.StatsHandler(connFault{u}))
					u.mu.Lock()
					u.srv, u.armed = s, true
					u.mu.Unlock()
					nc, err := net.Dial("tcp", addr)
					if err != nil {
						t.Fatal(err)
					}
					defer nc.Close()
					if _, err := io.WriteString(nc, first); err != nil {
						t.Fatal(err)
					}
					if place == "stats.ConnEnd" {
						nc.Close()
					}
					returns(t, place, func() { <-u.reached })
					if kind != "stops" {
						if err := calls["unary"](t.Context(), pb.NewTestServiceClient(dialTarn(t, addr))); err != nil {
							t.Errorf("a call on another connection: %v", err)
						}
					}
					returns(t, "Stop", s.Stop)
					close(u.release)
					returns(t, "Read", func() { _, _ = io.Copy(io.Discard, nc) })
				})
			}
		}
	}
}

// TestStopWaitsForConnEnd: GracefulStop, and Stop with WaitForHandlers, return after the statistics handlers of connections that have ended.
func TestStopWaitsForConnEnd(t *testing.T) {
	for name, stop := range map[string]func(*rpc.Server){"GracefulStop": (*rpc.Server).GracefulStop, "Stop": (*rpc.Server).Stop} {
		t.Run(name, func(t *testing.T) {
			u := &serverFault{place: "stats.ConnEnd", kind: "blocks", reached: make(chan struct{}), release: make(chan struct{})}
			u.arm()
			s, addr := startTarn(t, &testService{}, rpc.StatsHandler(connFault{u}), rpc.WaitForHandlers(true))
			if err := calls["unary"](t.Context(), pb.NewTestServiceClient(dialTarn(t, addr))); err != nil {
				t.Fatal(err)
			}
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				stop(s)
			}()
			returns(t, "ConnEnd", func() { <-u.reached })
			select {
			case <-stopped:
				t.Error("it does not wait")
			default:
			}
			close(u.release)
			returns(t, name, func() { <-stopped })
		})
	}
}

// stopsWhenSniffed is a listener of connections that have the server stopped when their protocol has been found out.
type stopsWhenSniffed struct {
	net.Listener
	stop func()
}

func (l *stopsWhenSniffed) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stoppingConn{Conn: nc, stop: l.stop, closed: make(chan struct{})}, nil
}

type stoppingConn struct {
	net.Conn
	stop   func()
	once   sync.Once
	closed chan struct{}
}

// SetReadDeadline has the server stopped when the deadline of the greeting is removed, and returns when Stop has closed the connection.
func (c *stoppingConn) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		go c.stop()
		<-c.closed
	}
	return nil
}

func (c *stoppingConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// connEvents notes what it is told of connections.
type connEvents struct {
	*serverFault // for calls, of which there are none
	events       chan string
}

func (e *connEvents) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	e.events <- "TagConn"
	return ctx
}

func (e *connEvents) HandleConn(_ context.Context, s stats.ConnStats) {
	e.events <- fmt.Sprintf("%T", s)
}

// TestNoConnEndWithoutBegin: a connection that Stop ends before the statistics handlers have been told of it is not ended for them either:
// they would be given a context that they have not tagged.
func TestNoConnEndWithoutBegin(t *testing.T) {
	faultnet.NeedsTCP(t, "the test dials by itself")
	for _, first := range []string{http2.ClientPreface, "GET / HTTP/1.1\r\n"} {
		name, _, _ := strings.Cut(first, "\r")
		t.Run(name, func(t *testing.T) {
			told := &connEvents{events: make(chan string, 10)}
			s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.StatsHandler(told))
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				s.Serve(&stopsWhenSniffed{lis, s.Stop})
			}()
			nc, err := net.Dial("tcp", lis.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := io.WriteString(nc, first); err != nil {
				t.Fatal(err)
			}
			returns(t, "Serve", func() { <-served })
			returns(t, "Stop", s.Stop)
			returns(t, "Read", func() { _, _ = io.Copy(io.Discard, nc) })
			select {
			case e := <-told.events:
				t.Errorf("the handlers were told: %s", e)
			default:
			}
		})
	}
}
