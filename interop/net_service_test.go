package interop

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The server of a trial of the net of options: its service, for both libraries.

// netService answers with the size and status that the metadata of the call asks for, and reports what it sees.
type netService struct {
	testpb.UnimplementedTestServiceServer
	o *netObserved
}

func (s netService) begin(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, k := range slices.Sorted(maps.Keys(md)) {
		if strings.HasPrefix(k, "x-") && k != "x-user-agent" {
			s.o.saw("server: %s %q", k, md[k])
		}
	}
	s.o.saw("server: named user agent %v, authority %v", strings.HasPrefix(strings.Join(md["user-agent"], ""), "net/1"), strings.Contains(strings.Join(md[":authority"], ""), "example"))
	_, timed := ctx.Deadline()
	s.o.saw("server: deadline %v", timed)
	_ = grpc.SetHeader(ctx, metadata.Pairs("x-head", "h", "x-head-bin", "\x00\xff"))
	_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trail", "t", "x-trail", "u"))
	code, _ := strconv.Atoi(strings.Join(md["x-code"], ""))
	if code == 0 {
		return nil
	}
	st, err := status.New(codes.Code(code), "it fails: ü %").WithDetails(durationpb.New(time.Minute))
	if err != nil {
		return err
	}
	return st.Err()
}

// netBody cannot be compressed: clients of Connect take compressed responses without having been told to, and limits are of what is sent.
func netBody(n int) *testpb.Payload {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return &testpb.Payload{Body: b}
}

func (s netService) UnaryCall(ctx context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return &testpb.SimpleResponse{Payload: in.Payload}, nil
}

func (s netService) StreamingOutputCall(in *testpb.StreamingOutputCallRequest, st testpb.TestService_StreamingOutputCallServer) error {
	if err := s.begin(st.Context()); err != nil {
		return err
	}
	for range 2 {
		if err := st.Send(&testpb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
			return err
		}
	}
	return nil
}

func (s netService) StreamingInputCall(st testpb.TestService_StreamingInputCallServer) error {
	n := 0
	for {
		in, err := st.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		n += len(in.GetPayload().GetBody())
	}
	if err := s.begin(st.Context()); err != nil {
		return err
	}
	return st.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(n)})
}

// serve starts a server, and returns its address.
func (tr *netTrial) serve(t *testing.T, o *netObserved, play *netPlay, ours bool) (addr string, stop func()) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unary := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		o.saw("server: unary interceptor")
		return h(ctx, req)
	}
	stream := func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		o.saw("server: stream interceptor")
		return h(srv, ss)
	}
	theirOpts, ourOpts := []grpc.ServerOption{grpc.WaitForHandlers(true)}, []rpc.ServerOption{rpc.WaitForHandlers(true), rpc.Pool(tarntest.NewPool(t))}
	for _, s := range tr.servers {
		switch s {
		case "MaxRecvMsgSize":
			theirOpts, ourOpts = append(theirOpts, grpc.MaxRecvMsgSize(600)), append(ourOpts, rpc.MaxRecvMsgSize(600))
		case "MaxSendMsgSize":
			theirOpts, ourOpts = append(theirOpts, grpc.MaxSendMsgSize(350)), append(ourOpts, rpc.MaxSendMsgSize(350))
		case "interceptors":
			theirOpts, ourOpts = append(theirOpts, grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream)), append(ourOpts, rpc.UnaryInterceptor(unary), rpc.StreamInterceptor(stream))
		case "StatsHandler":
			theirOpts, ourOpts = append(theirOpts, grpc.StatsHandler(netEvents{o, "server"})), append(ourOpts, rpc.StatsHandler(netEvents{o, "server"}))
		}
	}
	var s interface {
		grpc.ServiceRegistrar
		Serve(net.Listener) error
		GracefulStop()
	} = grpc.NewServer(theirOpts...)
	if ours {
		s = rpc.NewServer(ourOpts...)
	}
	if play != nil {
		play.register(s)
	} else {
		testpb.RegisterTestServiceServer(s, netService{o: o})
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	return lis.Addr().String(), func() {
		s.GracefulStop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // GracefulStop may be earlier than Serve
			t.Error(err)
		}
	}
}
