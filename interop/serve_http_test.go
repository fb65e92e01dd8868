package interop

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// TestServeHTTPClientLeft: what interceptors and statistics handlers see over net/http's server when the client has reset the stream and the
// handler then returns. grpc-go's ServeHTTP ends the handler's context before its transport, so that whether a handler that returns at once has
// its message and its status written, and OutTrailer reported, is a matter of chance; rpc reports neither. The rest is the same in every run of
// grpc-go's, and in rpc.
func TestServeHTTPClientLeft(t *testing.T) {
	const runs = 20
	differs := func(kind netShape, what, line string) bool { // a reply that cannot be sent: UNAVAILABLE of the transport, or CANCELLED as on a connection of Serve
		return kind == shapeUnary && what == "nil" && strings.Contains(line, "server: End")
	}
	for _, kind := range []netShape{shapeUnary, shapeOutput, shapeInput, shapeBoth} {
		for what, returns := range map[string]func(context.Context) error{
			"nil":                 func(context.Context) error { return nil },
			"the context's error": func(ctx context.Context) error { return ctx.Err() },
			"a status":            func(context.Context) error { return status.Error(codes.NotFound, "") },
		} {
			t.Run(kind.String()+", "+what, func(t *testing.T) {
				seen := func(ours bool) map[string]int { // in how many runs
					out := map[string]int{}
					for range runs {
						for _, l := range servedAndLeft(t, kind, returns, ours) {
							out[l]++
						}
					}
					return out
				}
				theirs, ours := seen(false), seen(true)
				t.Logf("grpc-go %v", theirs)
				t.Logf("rpc     %v", ours)
				for _, l := range slices.Sorted(maps.Keys(theirs)) {
					if theirs[l] == runs && ours[l] != runs && !differs(kind, what, l) {
						t.Errorf("%q is in each of %d runs of grpc-go, and in %d of rpc", l, runs, ours[l])
					}
				}
				for _, l := range slices.Sorted(maps.Keys(ours)) {
					if ours[l] != runs || strings.Contains(l, "OutTrailer") || strings.Contains(l, "OutHeader") {
						t.Errorf("%q is in %d of %d runs of rpc", l, ours[l], runs)
					}
				}
			})
		}
	}
}

// servedAndLeft makes a call that its client ends while the handler runs, and returns what the server's code sees.
func servedAndLeft(t *testing.T, kind netShape, returns func(context.Context) error, ours bool) []string {
	o := &netObserved{log: map[string]int{}}
	reached := make(chan struct{})
	handle := func(ctx context.Context) error {
		close(reached)
		<-ctx.Done()
		return returns(ctx)
	}
	unary := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		out, err := h(ctx, req)
		o.saw("interceptor: %v", status.Code(err))
		return out, err
	}
	stream := func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		err := h(srv, ss)
		o.saw("interceptor: %v", status.Code(err))
		return err
	}
	var s interface {
		grpc.ServiceRegistrar
		http.Handler
	} = grpc.NewServer(grpc.StatsHandler(netEvents{o, "server"}), grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	if ours {
		s = rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.StatsHandler(netEvents{o, "server"}), rpc.UnaryInterceptor(unary), rpc.StreamInterceptor(stream))
	}
	desc := &grpc.ServiceDesc{ServiceName: netScriptService, HandlerType: (*any)(nil)}
	if kind == shapeUnary {
		desc.Methods = []grpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, ctx context.Context, dec func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
			in := new(testpb.SimpleRequest)
			if err := dec(in); err != nil {
				return nil, err
			}
			return around(ctx, in, nil, func(ctx context.Context, _ any) (any, error) {
				if err := handle(ctx); err != nil {
					return nil, err
				}
				return &testpb.SimpleResponse{}, nil
			})
		}}}
	} else {
		desc.Streams = []grpc.StreamDesc{{StreamName: "Call", ClientStreams: kind.clientStreams(), ServerStreams: kind.serverStreams(),
			Handler: func(_ any, ss grpc.ServerStream) error { return handle(ss.Context()) }}}
	}
	s.RegisterService(desc, nil)

	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	srv := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
	})}
	srv.Protocols.SetUnencryptedHTTP2(true)
	go func() { defer close(served); _ = srv.Serve(lis) }()
	cc, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if kind == shapeUnary {
			_ = cc.Invoke(ctx, netScriptMethod, &testpb.SimpleRequest{}, &testpb.SimpleResponse{})
			return
		}
		st, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: kind.clientStreams(), ServerStreams: kind.serverStreams()}, netScriptMethod)
		if err == nil {
			_ = st.SendMsg(&testpb.SimpleRequest{})
			_ = st.RecvMsg(&testpb.SimpleResponse{})
		}
	}()
	<-reached
	leave()
	<-over
	s.(interface{ GracefulStop() }).GracefulStop() // waits for the handler
	cc.Close()
	srv.Close()
	<-served
	return o.lines()
}
