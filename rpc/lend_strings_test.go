package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	binlogpb "google.golang.org/grpc/binarylog/grpc_binarylog_v1"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const unaryPath, duplexPath = "/grpc.testing.TestService/UnaryCall", "/grpc.testing.TestService/FullDuplexCall"

// lentWays are those in which lent requests reach handlers, and responses clients.
var lentWays = []way{
	{name: "gRPC", protocol: rpc.GRPC},
	{name: "gRPC-Web", protocol: rpc.GRPCWeb},
	{name: "Connect", protocol: rpc.Connect},
	{name: "gRPC by net_http", protocol: rpc.GRPC, http: serveHTTP2},
	{name: "gRPC by h2http", protocol: rpc.GRPC, http: serveH2HTTP},
	{name: "Connect by net_http", protocol: rpc.Connect, http: serveHTTP2},
}

// eachLent serves svc in each way, with the requests of both methods lent.
func eachLent(t *testing.T, svc pb.TestServiceServer, f func(t *testing.T, s *rpc.Server, c pb.TestServiceClient), opts ...rpc.ServerOption) {
	for _, w := range lentWays {
		t.Run(w.name, func(t *testing.T) {
			opts := append([]rpc.ServerOption{rpc.LendStrings(unaryPath, duplexPath)}, opts...)
			var s *rpc.Server
			var addr string
			if w.http == nil {
				s, addr = startTarn(t, svc, opts...)
			} else {
				s = rpc.NewServer(append([]rpc.ServerOption{rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true)}, opts...)...)
				pb.RegisterTestServiceServer(s, svc)
				addr = w.http(t, http.Handler(s))
				t.Cleanup(s.Stop)
			}
			if w.protocol != rpc.GRPC {
				addr = "http://" + addr
			}
			f(t, s, pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(w.protocol))))
		})
	}
}

// texts are strings that a client sends, of lengths around those at which lent memory differs.
func texts() []string {
	var all []string
	for _, n := range []int{0, 1, 15, 100, 1023, 5000, 70000, 300000} {
		all = append(all, strings.Repeat("ab", n/2+1)[:n])
	}
	return all
}

// TestLendStrings: a string of a request is intact while its handler runs, in the response, and not afterwards.
func TestLendStrings(t *testing.T) {
	var mu sync.Mutex
	var kept, want []string
	svc := &testService{
		unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			kept, want = append(kept, in.ResponseStatus.Message), append(want, strings.Clone(in.ResponseStatus.Message))
			return &pb.SimpleResponse{Username: in.ResponseStatus.Message, Payload: in.Payload}, nil
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			for {
				in, err := s.Recv()
				if err != nil {
					return nil
				}
				if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte(in.ResponseStatus.Message)}}); err != nil {
					return err
				}
			}
		},
	}
	eachLent(t, svc, func(t *testing.T, server *rpc.Server, c pb.TestServiceClient) {
		mu.Lock()
		kept, want = nil, nil
		mu.Unlock()
		for _, text := range texts() {
			out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(len(text)), ResponseStatus: &pb.EchoStatus{Message: text}})
			if err != nil || out.Username != text || !bytes.Equal(out.Payload.GetBody(), body(len(text))) {
				t.Fatalf("%d bytes: %v", len(text), err)
			}
		}
		if strings.HasPrefix(t.Name(), "TestLendStrings/gRPC") && !strings.Contains(t.Name(), "Web") { // HTTP/1.1 has no such streams
			talk(t, c)
		}
		if raceFactor > 1 || strings.HasSuffix(t.Name(), "h2http") {
			return // the memory has another owner, or is of h2http's pool, which does not overwrite it
		}
		server.Stop()
		for i := range kept {
			if len(kept[i]) > 0 && kept[i] == want[i] {
				t.Errorf("a string of %d bytes is still intact after its handler", len(want[i]))
			}
		}
	}, rpc.CheckLent(0, nil))
}

// talk exchanges texts on a stream.
func talk(t *testing.T, c pb.TestServiceClient) {
	st, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts() {
		if err := st.Send(&pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Message: text}}); err != nil {
			t.Fatal(err)
		}
		if out, err := st.Recv(); err != nil || string(out.Payload.GetBody()) != text {
			t.Fatalf("%d bytes in a stream: %v", len(text), err)
		}
	}
	st.CloseSend()
	st.Recv()
}

// TestLentStringsInMetadata: header, trailer and status may be strings of the request. The same values come again after others, so that
// what a connection remembers of earlier calls is used.
func TestLentStringsInMetadata(t *testing.T) {
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		text := in.ResponseStatus.Message
		if err := grpc.SetHeader(ctx, metadata.Pairs("x-header", text)); err != nil {
			return nil, err
		}
		if err := grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", text)); err != nil {
			return nil, err
		}
		if in.ResponseStatus.Code != 0 {
			return nil, status.Error(codes.Code(in.ResponseStatus.Code), text)
		}
		return &pb.SimpleResponse{}, nil
	}}
	eachLent(t, svc, func(t *testing.T, _ *rpc.Server, c pb.TestServiceClient) {
		for i, text := range []string{"one", "one", "one", "two", "two", "one", "three", "three", "two", "one"} {
			for _, code := range []codes.Code{codes.OK, codes.NotFound} {
				var header, trailer metadata.MD
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(code), Message: text}}, grpc.Header(&header), grpc.Trailer(&trailer))
				if status.Code(err) != code || err != nil && status.Convert(err).Message() != text {
					t.Errorf("call %d: %v", i, err)
				}
				if got := append(header.Get("x-header"), trailer.Get("x-trailer")...); !slices.Equal(got, []string{text, text}) && !(code != codes.OK && slices.Equal(trailer.Get("x-trailer"), []string{text})) {
					t.Errorf("call %d, %v: header %v, trailer %v", i, code, header, trailer)
				}
			}
		}
	})
}

// ends records what the End of each call says, and what a binary log's entries do when the call is over.
type ends struct {
	mu       sync.Mutex
	messages []string
	entries  []*binlogpb.GrpcLogEntry
}

func (*ends) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*ends) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*ends) HandleConn(context.Context, stats.ConnStats)                       {}
func (e *ends) HandleRPC(_ context.Context, s stats.RPCStats) {
	if end, ok := s.(*stats.End); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.messages = append(e.messages, strings.Clone(status.Convert(end.Error).Message()))
	}
}

func (e *ends) Write(entry *binlogpb.GrpcLogEntry) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.entries = append(e.entries, entry)
	return nil
}

func (*ends) Close() error { return nil }

// TestLentStringsAreReadAtTheEnd: statistics handlers read the status in End, and the sink of a binary log after the call.
func TestLentStringsAreReadAtTheEnd(t *testing.T) {
	svc := &testService{
		unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			return nil, status.Error(codes.NotFound, in.ResponseStatus.Message)
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			in, err := s.Recv()
			if err != nil {
				return err
			}
			return status.Error(codes.NotFound, in.ResponseStatus.Message)
		},
	}
	e := new(ends)
	log, err := rpc.NewCallLog("*", e)
	if err != nil {
		t.Fatal(err)
	}
	eachLent(t, svc, func(t *testing.T, server *rpc.Server, c pb.TestServiceClient) {
		e.mu.Lock()
		e.messages, e.entries = nil, nil
		e.mu.Unlock()
		var want []string
		for _, text := range []string{"a status", strings.Repeat("a long status ", 100)} {
			want = append(want, text)
			if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Message: text}}); status.Convert(err).Message() != text {
				t.Fatal(err)
			}
			if strings.Contains(t.Name(), "Web") || strings.Contains(t.Name(), "Connect") { // HTTP/1.1 has no such streams
				continue
			}
			want = append(want, text)
			st, err := c.FullDuplexCall(ctxFor(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := st.Send(&pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Message: text}}); err != nil {
				t.Fatal(err)
			}
			if _, err := st.Recv(); status.Convert(err).Message() != text {
				t.Fatal(err)
			}
		}
		server.Stop()
		e.mu.Lock()
		defer e.mu.Unlock()
		slices.Sort(want) // two calls may end in either order
		if slices.Sort(e.messages); !slices.Equal(e.messages, want) {
			t.Errorf("End has %q", e.messages)
		}
		var logged []string
		for _, entry := range e.entries {
			if trailer := entry.GetTrailer(); trailer != nil {
				logged = append(logged, trailer.StatusMessage)
			}
		}
		if slices.Sort(logged); !slices.Equal(logged, want) {
			t.Errorf("the log has %q", logged)
		}
	}, rpc.StatsHandler(e), rpc.BinaryLog(log), rpc.CheckLent(0, nil))
}

// TestCheckLent: a string that a handler keeps is reported by the name of its field, and stays as it was.
func TestCheckLent(t *testing.T) {
	var kept string
	svc := &testService{unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		kept = in.ResponseStatus.Message
		return &pb.SimpleResponse{Payload: in.Payload}, nil
	}}
	found := make(chan rpc.KeptField, 100)
	server, addr := startTarn(t, svc, rpc.LendStrings(unaryPath), rpc.CheckLent(1, func(k rpc.KeptField) { found <- k }))
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100), ResponseStatus: &pb.EchoStatus{Message: "a message that is kept"}}); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	for begun := time.Now(); len(found) == 0; runtime.GC() {
		if time.Since(begun) > 20*time.Second {
			t.Fatal("nothing was found")
		}
	}
	if k := <-found; k != (rpc.KeptField{Method: unaryPath, Name: "grpc.testing.EchoStatus.message", Bytes: 22}) || len(found) > 0 {
		t.Errorf("found %v and %d others", k, len(found))
	}
	if kept != "a message that is kept" {
		t.Errorf("the string is %q", kept)
	}
}

// lentMessage records how it is used.
type lentMessage struct {
	*pb.SimpleRequest
	b        []byte
	released int
	fail     error
}

func (m *lentMessage) UnmarshalLent(b []byte) error {
	m.b = b
	if m.fail != nil {
		return m.fail
	}
	return proto.Unmarshal(b, m.SimpleRequest)
}

func (m *lentMessage) ReleaseLent() {
	m.released++
	m.b = nil
}

// TestLentMessage: a message that decodes itself has the memory until the call is over, and is released once, whatever ends it.
func TestLentMessage(t *testing.T) {
	ends := map[string]func(ctx context.Context) error{
		"reply":    func(context.Context) error { return nil },
		"error":    func(context.Context) error { return status.Error(codes.NotFound, "no") },
		"panic":    func(context.Context) error { panic("of the test") },
		"deadline": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"decode":   nil,
	}
	for name, end := range ends {
		for _, protocol := range []rpc.Protocol{rpc.GRPC, rpc.Connect} {
			t.Run(fmt.Sprintf("%s/%v", name, protocol), func(t *testing.T) {
				in := &lentMessage{SimpleRequest: new(pb.SimpleRequest)}
				if end == nil {
					in.fail = errors.New("of the test")
				}
				handler := func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
					if err := dec(in); err != nil {
						return nil, err
					}
					if in.released > 0 || !bytes.Contains(in.b, []byte("text")) {
						t.Errorf("in the handler: released %d times, %q", in.released, in.b)
					}
					return &pb.SimpleResponse{Payload: in.Payload}, end(ctx)
				}
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.LendRequests("/a.B/C"), rpc.PanicHandler(func(string, any, []byte) {}))
				s.RegisterService(&grpc.ServiceDesc{ServiceName: "a.B", Methods: []grpc.MethodDesc{{MethodName: "C", Handler: handler}}}, nil)
				addr := serve(t, s)
				if protocol != rpc.GRPC {
					addr = "http://" + addr
				}
				cc := dialTarn(t, addr, rpc.WithProtocol(protocol))
				ctx := ctxFor(t)
				if name == "deadline" {
					var cancel func()
					ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
					defer cancel()
				}
				out := new(pb.SimpleResponse)
				err := cc.Invoke(ctx, "/a.B/C", &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("text")}}, out)
				if (err == nil) != (name == "reply") {
					t.Errorf("the call ended with %v", err)
				}
				s.Stop()
				if in.released != 1 && !(name == "deadline" && in.released == 0 && in.b == nil) {
					t.Errorf("released %d times", in.released)
				}
			})
		}
	}
}
