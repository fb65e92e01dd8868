package rpc_test

import (
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/protobuf/proto"
)

// exiting is a stats handler that ends the goroutine at the first event of one kind, as testing.T.FailNow does.
type exiting struct {
	is   func(stats.RPCStats) bool
	done atomic.Bool
}

func (*exiting) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*exiting) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*exiting) HandleConn(context.Context, stats.ConnStats)                       {}

func (e *exiting) HandleRPC(_ context.Context, s stats.RPCStats) {
	if e.is(s) && e.done.CompareAndSwap(false, true) {
		runtime.Goexit()
	}
}

func isStats[T stats.RPCStats](s stats.RPCStats) bool { _, ok := s.(T); return ok }

// outEvents are those that a stats handler gets while a response, or a request, is sent.
var outEvents = map[string]func(stats.RPCStats) bool{
	"header":  isStats[*stats.OutHeader],
	"payload": isStats[*stats.OutPayload],
	"trailer": isStats[*stats.OutTrailer],
}

// TestStatsHandlerThatExits: the call of a stats handler that ends the server's goroutine ends, too, and the server does not wait for it.
func TestStatsHandlerThatExits(t *testing.T) {
	stream := func(s pb.TestService_FullDuplexCallServer) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		return s.Send(&pb.StreamingOutputCallResponse{})
	}
	tooLong := func(s pb.TestService_FullDuplexCallServer) error {
		return s.Send(&pb.StreamingOutputCallResponse{Payload: payload(2000)})
	}
	for name, is := range outEvents {
		for kind, f := range map[string]func(pb.TestService_FullDuplexCallServer) error{"unary": nil, "stream": stream, "refused": tooLong} {
			if kind == "refused" && name != "trailer" {
				continue // nothing else is sent
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				e := &exiting{is: is}
				srv, addr := startTarn(t, &testService{duplex: f}, rpc.StatsHandler(e), rpc.MaxSendMsgSize(1000))
				c := pb.NewTestServiceClient(dialTarn(t, addr))
				ctx := ctxFor(t)
				if f == nil {
					_, _ = c.UnaryCall(ctx, &pb.SimpleRequest{}) // OK if all has been sent
				} else {
					s, err := c.FullDuplexCall(ctx)
					if err != nil {
						t.Fatal(err)
					}
					_ = s.Send(&pb.StreamingOutputCallRequest{})
					for err == nil {
						_, err = s.Recv()
					}
				}
				if ctx.Err() != nil {
					t.Error("the call has not ended")
				}
				stopped := make(chan struct{})
				go func() { defer close(stopped); srv.GracefulStop() }()
				select {
				case <-stopped:
				case <-ctx.Done():
					t.Fatal("GracefulStop waits for the call")
				}
				if !e.done.Load() { // the client may have had the answer before
					t.Error("no such event")
				}
			})
		}
	}
}

// trailing is a stats handler that sets a trailer at the event of a message that has been sent.
type trailing struct{ stats.Handler }

func (trailing) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (trailing) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (trailing) HandleConn(context.Context, stats.ConnStats)                       {}

func (trailing) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if isStats[*stats.OutPayload](s) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("late", "1"))
	}
}

// TestStatsHandlerThatSetsATrailer: no lock of the stream is held while a stats handler learns of a message, so that it may use the
// stream, as in grpc-go.
func TestStatsHandlerThatSetsATrailer(t *testing.T) {
	_, ours := startTarn(t, &testService{}, rpc.StatsHandler(trailing{}))
	_, theirs := startGRPC(t, &testService{}, grpc.StatsHandler(trailing{}))
	for name, cc := range map[string]*rpc.ClientConn{
		"gRPC":    dialTarn(t, ours),
		"Connect": dialTarn(t, ours, rpc.WithProtocol(rpc.Connect)),
		"grpc-go": dialTarn(t, theirs),
	} {
		c := pb.NewTestServiceClient(cc)
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Errorf("%s, unary: %v", name, err)
		}
		s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = s.Recv()
		}
		if err != io.EOF {
			t.Errorf("%s, stream: %v", name, err)
		}
	}
}

// onceFailing are per-RPC credentials that panic the first time.
type onceFailing struct{ done atomic.Bool }

func (f *onceFailing) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if f.done.CompareAndSwap(false, true) {
		panic("credentials")
	}
	return nil, nil
}
func (*onceFailing) RequireTransportSecurity() bool { return false }

// TestStreamAfterAPanic: when a hook panics in a method of a stream, the stream can be used by the program that has recovered, and ends
// with its context.
func TestStreamAfterAPanic(t *testing.T) {
	const method = "/grpc.testing.TestService/StreamingOutputCall"
	desc := &grpc.StreamDesc{ServerStreams: true}
	for name, protocol := range map[string]rpc.Protocol{"gRPC": rpc.GRPC, "Connect": rpc.Connect} {
		t.Run(name, func(t *testing.T) {
			_, addr := startTarn(t, &testService{})
			cc := dialTarn(t, addr, rpc.WithProtocol(protocol))
			for hook, opt := range map[string]grpc.CallOption{
				"credentials": grpc.PerRPCCredentials(new(onceFailing)),
				"OnFinish":    grpc.OnFinish(func(error) { panic("OnFinish") }),
			} {
				t.Run(hook, func(t *testing.T) {
					ctx, cancel := context.WithCancel(ctxFor(t))
					defer cancel()
					s, err := cc.NewStream(ctx, desc, method, opt)
					if err != nil {
						t.Fatal(err)
					}
					panics := 0
					call := func(what string, f func() error) {
						returned := make(chan struct{})
						go func() {
							defer close(returned)
							defer func() {
								if recover() != nil {
									panics++
								}
							}()
							_ = f()
						}()
						select {
						case <-returned:
						case <-time.After(10 * time.Second):
							t.Fatalf("%s does not return", what)
						}
					}
					call("SendMsg", func() error { return s.SendMsg(&pb.StreamingOutputCallRequest{}) })
					call("CloseSend", s.CloseSend)
					if hook == "OnFinish" {
						call("RecvMsg", func() error { return s.RecvMsg(new(pb.StreamingOutputCallResponse)) })
					}
					cancel()
					call("RecvMsg", func() error { return s.RecvMsg(new(pb.StreamingOutputCallResponse)) })
					if panics != 1 {
						t.Errorf("%d panics", panics)
					}
				})
			}
		})
	}
}

// TestDialerThatExits: an attempt to connect fails whose dialer ends the goroutine, and the next one succeeds.
func TestDialerThatExits(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	for name, protocol := range map[string]rpc.Protocol{"gRPC": rpc.GRPC, "Connect": rpc.Connect} {
		t.Run(name, func(t *testing.T) {
			var dials atomic.Int32
			dial := func(ctx context.Context, addr string) (net.Conn, error) {
				if dials.Add(1) == 1 {
					runtime.Goexit()
				}
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			}
			c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(protocol), rpc.WithContextDialer(dial)))
			_, err := c.EmptyCall(ctxFor(t), &pb.Empty{})
			wantCode(t, err, codes.Unavailable)
			if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}, grpc.WaitForReady(true)); err != nil {
				t.Error(err)
			}
		})
	}
}

// failingStats is a stats handler that fails at the first event of a kind, or at every event, and counts ends and trailers.
type failingStats struct {
	exiting
	every    bool
	fail     func()
	trailers atomic.Int32
	ends     atomic.Int32
	ended    chan struct{} // receives at each End
}

func (f *failingStats) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.OutTrailer:
		f.trailers.Add(1)
	case *stats.End:
		f.ends.Add(1)
		f.ended <- struct{}{}
	}
	if f.every || f.is(s) && f.done.CompareAndSwap(false, true) {
		f.fail()
	}
}

// eachFailing calls f with stats handlers that fail in each way at each event of a response, and at all events.
func eachFailing(t *testing.T, f func(t *testing.T, h *failingStats, kind string)) {
	events := maps.Clone(outEvents)
	events["every event"] = nil
	for how, fail := range map[string]func(){"exit": runtime.Goexit, "panic": func() { panic("the stats handler's") }} {
		for event, is := range events {
			for _, kind := range []string{"unary", "stream", "refused"} {
				if kind == "refused" && (event == "header" || event == "payload") {
					continue // nothing else is sent
				}
				t.Run(how+"/"+kind+"/"+event, func(t *testing.T) {
					f(t, &failingStats{exiting: exiting{is: is}, every: is == nil, fail: fail, ended: make(chan struct{}, 10)}, kind)
				})
			}
		}
	}
}

// TestStatsHandlerThatFailsOverEachCarrier: a call ends, once, whose stats handler ends the goroutine or panics, which net/http recovers from.
func TestStatsHandlerThatFailsOverEachCarrier(t *testing.T) {
	faultnet.NeedsTCP(t, "net/http serves and dials")
	for _, w := range ways {
		if w.grpcgo {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			eachFailing(t, func(t *testing.T, h *failingStats, kind string) {
				if w.http == nil && w.protocol == rpc.GRPC && strings.Contains(t.Name(), "/panic/") {
					t.Skip("a panic of a stats handler ends the program")
				}
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.StatsHandler(h), rpc.MaxSendMsgSize(1000),
					rpc.PanicHandler(func(string, any, []byte) {}))
				pb.RegisterTestServiceServer(s, &testService{})
				var cc *rpc.ClientConn
				if w.http == nil {
					cc = w.dial(t, serve(t, s))
				} else {
					t.Cleanup(s.Stop)
					cc = w.dial(t, w.http(t, s))
				}
				c := pb.NewTestServiceClient(cc)
				ctx := ctxFor(t)
				size := int32(10)
				switch kind {
				case "unary":
					_, _ = c.UnaryCall(ctx, &pb.SimpleRequest{})
				case "refused":
					size = 2000
					fallthrough
				default:
					st, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: size}}})
					for err == nil {
						_, err = st.Recv()
					}
				}
				if ctx.Err() != nil {
					t.Error("the call has not ended")
				}
				select {
				case <-h.ended:
				case <-time.After(hang):
					t.Error("the stats handler has not got the end")
				}
				s.GracefulStop()
				if n, ends := h.trailers.Load(), h.ends.Load(); n > 1 || ends != 1 {
					t.Errorf("the stats handler has got %d trailers and %d ends", n, ends)
				}
			})
		})
	}
}

// TestStatsHandlerThatFailsAtTheStatus: a status that has been sent is not followed by another one when a stats handler fails at it.
func TestStatsHandlerThatFailsAtTheStatus(t *testing.T) {
	for name, contentType := range map[string]string{"gRPC": "application/grpc", "gRPC-Web": "application/grpc-web+proto", "Connect": "application/connect+proto"} {
		t.Run(name, func(t *testing.T) {
			eachFailing(t, func(t *testing.T, h *failingStats, kind string) {
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.StatsHandler(h), rpc.MaxSendMsgSize(1000),
					rpc.PanicHandler(func(string, any, []byte) {}))
				pb.RegisterTestServiceServer(s, &testService{})
				method, size := "StreamingOutputCall", int32(10)
				switch {
				case kind == "unary" && name == "Connect":
					t.Skip("its status is no part of the body")
				case kind == "unary":
					method = "UnaryCall"
				case kind == "refused":
					size = 2000
				}
				in, err := proto.Marshal(&pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: size}}})
				if err != nil {
					t.Fatal(err)
				}
				if method == "UnaryCall" {
					in = nil
				}
				r := httptest.NewRequest(http.MethodPost, testServicePath+method, strings.NewReader(string(prefixed(0, in))))
				r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
				r.Header.Set("Content-Type", contentType)
				w := httptest.NewRecorder()
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					defer func() { _ = recover() }()
					s.ServeHTTP(w, r)
				}()
				<-returned
				s.GracefulStop()
				var statuses []string
				for name, values := range w.Header() { // of gRPC
					if strings.HasSuffix(strings.ToLower(name), "grpc-status") {
						statuses = append(statuses, values...)
					}
				}
				for out := w.Body.Bytes(); len(out) > 0; {
					n := 5 + int(binary.BigEndian.Uint32(out[1:]))
					if out[0]&0x82 != 0 { // of gRPC-Web and Connect
						statuses = append(statuses, string(out[5:n]))
					}
					out = out[n:]
				}
				if len(statuses) != 1 {
					t.Fatalf("there are %d statuses: %q", len(statuses), statuses)
				}
				text := statuses[0]
				internal := text == "13" || strings.Contains(text, "grpc-status: 13") || strings.Contains(text, "internal")
				// Otherwise the status has been sent when the handler fails.
				if before := h.every || strings.HasSuffix(t.Name(), "/header") || kind == "stream" && strings.HasSuffix(t.Name(), "/payload"); internal != before {
					t.Errorf("the status is %q", text)
				}
				if n, ends := h.trailers.Load(), h.ends.Load(); n > 1 || ends != 1 {
					t.Errorf("the stats handler has got %d trailers and %d ends", n, ends)
				}
			})
		})
	}
}
