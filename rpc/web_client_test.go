package rpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// carrier is an HTTP version and connection for clients of another protocol than gRPC.
type carrier struct {
	name  string
	major int // HTTP version
	// start serves svc and connects a client.
	start func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn
}

var carriers = []carrier{
	{"HTTP1", 1, func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn {
		_, addr := startTarn(t, svc)
		return dialTarn(t, addr, opts...)
	}},
	{"H2C", 2, func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn {
		_, addr := startTarn(t, svc)
		rt := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}, DisableCompression: true}
		t.Cleanup(rt.CloseIdleConnections)
		cc, err := rpc.NewClient("http://"+addr, append([]rpc.DialOption{rpc.WithPool(tarntest.NewPool(t)), rpc.WithRoundTripper(rt)}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cc.Close() })
		return cc
	}},
	{"TLS-HTTP2", 2, func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn {
		return startWebTLS(t, svc, nil, opts...)
	}},
	{"TLS-HTTP1", 1, func(t *testing.T, svc pb.TestServiceServer, opts ...rpc.DialOption) *rpc.ClientConn {
		return startWebTLS(t, svc, []string{"http/1.1"}, opts...)
	}},
}

// startWebTLS serves svc with net/http over TLS, with HTTP/1.1 alone if protos says so.
func startWebTLS(t *testing.T, svc pb.TestServiceServer, protos []string, opts ...rpc.DialOption) *rpc.ClientConn {
	t.Helper()
	cert, roots := testcert.New(t)
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(s, svc)
	h := httptest.NewUnstartedServer(s)
	h.EnableHTTP2 = protos == nil
	h.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protos}
	h.StartTLS()
	t.Cleanup(h.Close)
	creds := credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: testcert.Name, NextProtos: []string{"h2", "http/1.1"}})
	return dialTarn(t, h.Listener.Addr().String(), append(opts, rpc.WithTransportCredentials(creds))...)
}

// eachWeb runs f with every protocol over every carrier.
func eachWeb(t *testing.T, svc pb.TestServiceServer, f func(t *testing.T, c pb.TestServiceClient, major int), opts ...rpc.DialOption) {
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		for _, by := range carriers {
			t.Run(p.String()+"/"+by.name, func(t *testing.T) {
				cc := by.start(t, svc, append(slices.Clone(opts), rpc.WithProtocol(p))...)
				f(t, pb.NewTestServiceClient(cc), by.major)
			})
		}
	}
}

// asked answers as the request's metadata says.
func asked(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get("x-echo") {
		grpc.SetHeader(ctx, metadata.Pairs("x-head", v))
		grpc.SetTrailer(ctx, metadata.Pairs("x-trail", v))
	}
	for _, v := range md.Get("x-echo-bin") {
		grpc.SetTrailer(ctx, metadata.Pairs("x-trail-bin", v))
	}
	if _, ok := ctx.Deadline(); in.FillUsername && ok {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s := in.GetResponseStatus(); s.GetCode() != 0 {
		st, err := status.New(codes.Code(s.Code), s.Message).WithDetails(durationpb.New(time.Minute))
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	}
	return &pb.SimpleResponse{Payload: in.Payload}, nil
}

// webSizes are lengths of messages in bytes: below and above the length of one read, and one with a separate
// buffer.
var webSizes = []int{0, 1, 1000, 70000, 500000}

func TestWebClientUnary(t *testing.T) {
	t.Parallel()
	for _, call := range []struct {
		name string
		opts []grpc.CallOption
	}{{"proto", nil}, {"json", []grpc.CallOption{grpc.CallContentSubtype("json")}}, {"gzip", []grpc.CallOption{grpc.UseCompressor(gzip.Name)}}} {
		t.Run(call.name, func(t *testing.T) {
			eachWeb(t, &testService{unary: asked}, func(t *testing.T, c pb.TestServiceClient, major int) {
				for _, n := range webSizes {
					ctx := metadata.AppendToOutgoingContext(ctxFor(t), "x-echo", "a", "x-echo", "b", "x-echo-bin", "\x00\xff")
					var head, trail metadata.MD
					var at peer.Peer
					opts := append([]grpc.CallOption{grpc.Header(&head), grpc.Trailer(&trail), grpc.Peer(&at)}, call.opts...)
					out, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(n)}, opts...)
					if err != nil {
						t.Fatalf("%d bytes: %v", n, err)
					}
					if !bytes.Equal(out.GetPayload().GetBody(), body(n)) {
						t.Errorf("%d bytes came back changed", n)
					}
					if !slices.Equal(head["x-head"], []string{"a", "b"}) || !slices.Equal(trail["x-trail"], []string{"a", "b"}) || !slices.Equal(trail["x-trail-bin"], []string{"\x00\xff"}) {
						t.Errorf("header %v, trailer %v", head, trail)
					}
					if at.Addr == nil {
						t.Error("no peer")
					}
				}
			})
		})
	}
}

func TestWebClientStatus(t *testing.T) {
	t.Parallel()
	eachWeb(t, &testService{unary: asked}, func(t *testing.T, c pb.TestServiceClient, major int) {
		for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
			var trail metadata.MD
			ctx := metadata.AppendToOutgoingContext(ctxFor(t), "x-echo", "v")
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(code), Message: "über %\n"}}, grpc.Trailer(&trail))
			st := status.Convert(err)
			if st.Code() != code || st.Message() != "über %\n" || len(trail["x-trail"]) != 1 {
				t.Errorf("%v: %v, trailer %v", code, err, trail)
			}
			if d := st.Details(); len(d) != 1 || d[0].(*durationpb.Duration).Seconds != 60 {
				t.Errorf("%v: details %v", code, d)
			}
		}
		_, err := c.UnimplementedCall(ctxFor(t), &pb.Empty{})
		wantCode(t, err, codes.Unimplemented)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(4<<20 + 1)})
		wantCode(t, err, codes.ResourceExhausted)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)}, grpc.MaxCallRecvMsgSize(100))
		wantCode(t, err, codes.ResourceExhausted)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1000)}, grpc.MaxCallSendMsgSize(100))
		wantCode(t, err, codes.ResourceExhausted)
		_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.CallAuthority("other"))
		wantCode(t, err, codes.Unimplemented)
	})
}

func TestWebClientDeadline(t *testing.T) {
	var seen atomic.Bool
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if _, ok := ctx.Deadline(); ok {
			seen.Store(true)
		}
		return asked(ctx, in)
	}}
	eachWeb(t, svc, func(t *testing.T, c pb.TestServiceClient, major int) {
		seen.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
		defer cancel()
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{FillUsername: true})
		wantCode(t, err, codes.DeadlineExceeded)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil || !seen.Load() {
			t.Errorf("%v; the server has seen a deadline: %v", err, seen.Load())
		}
	})
}

// TestWebClientDeadlineWhileConnecting: a call whose deadline passes while its connection is made fails with DEADLINE_EXCEEDED, also when
// the connection's deadline, which is the same, has been noticed before the context's.
func TestWebClientDeadlineWhileConnecting(t *testing.T) {
	silent := listen(t) // accepts connections and does not answer
	t.Cleanup(func() { silent.Close() })
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		for name, dial := range map[string]func(context.Context, string) (net.Conn, error){
			"handshake": func(ctx context.Context, addr string) (net.Conn, error) {
				return new(net.Dialer).DialContext(context.WithoutCancel(ctx), "tcp", addr)
			},
			"dial": func(ctx context.Context, addr string) (net.Conn, error) {
				at, _ := ctx.Deadline()
				<-time.After(time.Until(at))
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
			},
		} {
			t.Run(p.String()+"/"+name, func(t *testing.T) {
				c := pb.NewTestServiceClient(dialTarn(t, silent.Addr().String(), rpc.WithProtocol(p), rpc.WithContextDialer(dial),
					rpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}))))
				for _, opts := range [][]grpc.CallOption{nil} {
					late := func() context.Context {
						return lateContext{Context: t.Context(), at: time.Now().Add(20 * time.Millisecond)}
					}
					_, err := c.UnaryCall(late(), &pb.SimpleRequest{}, opts...)
					wantCode(t, err, codes.DeadlineExceeded)
					s, err := c.StreamingOutputCall(late(), &pb.StreamingOutputCallRequest{}, opts...)
					if err == nil {
						_, err = s.Recv()
					}
					wantCode(t, err, codes.DeadlineExceeded)
				}
			})
		}
	}
}

// Concurrent calls of one client share connections over HTTP/2 and have separate ones over HTTP/1.1.
func TestWebClientConcurrent(t *testing.T) {
	eachWeb(t, &testService{}, func(t *testing.T, c pb.TestServiceClient, major int) {
		ctx := ctxFor(t)
		ended := make(chan error, 16)
		for range cap(ended) {
			go func() {
				for i := range 10 {
					out, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(i * 500)})
					if err == nil && len(out.GetPayload().GetBody()) != i*500 {
						err = fmt.Errorf("%d bytes of %d", len(out.GetPayload().GetBody()), i*500)
					}
					if err != nil {
						ended <- err
						return
					}
				}
				ended <- nil
			}()
		}
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// Statistics handlers get the same events for a call as with gRPC, except for lengths on the wire.
func TestWebClientStats(t *testing.T) {
	for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
		log := newEventLog()
		_, addr := startTarn(t, &testService{})
		c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(p), rpc.WithStatsHandler(log)))
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(10)}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range log.take() {
			name, _, _ := strings.Cut(e, " ")
			if !delayedPick(name) { // there is nothing to pick
				got = append(got, name)
			}
		}
		want := []string{"Begin", "OutHeader", "OutPayload", "InHeader", "InPayload", "InTrailer", "End"}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v", p, got)
		}
	}
}

// A library that needs a *grpc.ClientConn gets one that uses the other protocol.
func TestWebClientAsGRPC(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	stock := rpc.AsGRPC(dialTarn(t, addr, rpc.WithProtocol(rpc.Connect)))
	out, err := pb.NewTestServiceClient(stock).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100)})
	if err != nil || len(out.Payload.Body) != 100 {
		t.Error(err)
	}
}

// TestWebClientFinishOfEndedCalls: OnFinish of a call whose context had ended before it began is called, once, although the
// call's options were not read.
func TestWebClientFinishOfEndedCalls(t *testing.T) {
	for _, p := range []rpc.Protocol{rpc.Connect, rpc.GRPCWeb} {
		t.Run(p.String(), func(t *testing.T) {
			_, url := startWeb(t, &testService{})
			cc := dialTarn(t, url, rpc.WithProtocol(p))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			var ends []error
			finish := grpc.OnFinish(func(err error) { ends = append(ends, err) })
			_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{}, finish)
			wantCode(t, err, codes.Canceled)
			_, err = cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.TestService_StreamingOutputCall_FullMethodName, finish)
			wantCode(t, err, codes.Canceled)
			if len(ends) != 2 || status.Code(ends[0]) != codes.Canceled || status.Code(ends[1]) != codes.Canceled {
				t.Errorf("OnFinish was called with %v", ends)
			}
		})
	}
}
