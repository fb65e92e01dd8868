package rpc_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// TestContextKeptByAHandler keeps the contexts and the streams of handlers that have returned, while others
// are handled: a context is cancelled and has its own call's metadata, method and peer, and each method of a
// stream fails or has no effect.
func TestContextKeptByAHandler(t *testing.T) {
	const calls = 20
	var contexts []context.Context
	var streams []pb.TestService_FullDuplexCallServer
	svc := &testService{
		unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			contexts = append(contexts, ctx)
			return &pb.SimpleResponse{}, nil
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			contexts, streams = append(contexts, s.Context()), append(streams, s)
			return nil
		},
	}
	inBubble(t, svc, nil, func(t *testing.T, c pb.TestServiceClient) {
		name := func(i int) string { return string(rune('a' + i)) }
		for i := range calls {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "name", name(i))
			if i%2 == 0 {
				if _, err := c.UnaryCall(ctx, &pb.SimpleRequest{}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			s, err := c.FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); err == nil {
				t.Fatal("a message came")
			}
		}
		synctest.Wait()
		for i, ctx := range contexts {
			select {
			case <-ctx.Done():
			default:
				t.Errorf("context %d has not ended after its handler has returned", i)
			}
			if ctx.Err() != context.Canceled {
				t.Errorf("context %d ended with %v", i, ctx.Err())
			}
			if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("name")) != 1 || md.Get("name")[0] != name(i) {
				t.Errorf("context %d has metadata %v", i, md)
			}
			want := "/grpc.testing.TestService/UnaryCall"
			if i%2 == 1 {
				want = "/grpc.testing.TestService/FullDuplexCall"
			}
			if m, ok := grpc.Method(ctx); !ok || m != want {
				t.Errorf("context %d is of method %q", i, m)
			}
			if p, ok := peer.FromContext(ctx); !ok || p.Addr == nil {
				t.Errorf("context %d has no peer", i)
			}
		}
		for i, s := range streams {
			s.SetTrailer(metadata.Pairs("a", "b"))
			if s.SetHeader(metadata.Pairs("a", "b")) == nil || s.SendHeader(metadata.Pairs("a", "b")) == nil {
				t.Errorf("stream %d took a header after its handler had returned", i)
			}
			if s.Send(&pb.StreamingOutputCallResponse{}) == nil {
				t.Errorf("stream %d sent a message after its handler had returned", i)
			}
			if _, err := s.Recv(); err == nil {
				t.Errorf("stream %d received a message after its handler had returned", i)
			}
		}
	})
}

// TestWaitForHandlers calls Stop while a handler that ignores its context runs: Stop returns, and with
// WaitForHandlers(true) it returns when the handler has.
func TestWaitForHandlers(t *testing.T) {
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lis, release := newPipes(), make(chan struct{})
			returned := false
			s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(waits))
			pb.RegisterTestServiceServer(s, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
				<-release
				returned = true
				return &pb.SimpleResponse{}, nil
			}})
			served, stopped, got := make(chan error, 1), make(chan struct{}), make(chan error, 1)
			go func() { served <- s.Serve(lis) }()
			cc, err := rpc.NewClient("passthrough:///svc", rpc.WithPool(tarntest.NewPool(t)),
				rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithContextDialer(lis.dial))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, err := pb.NewTestServiceClient(cc).UnaryCall(t.Context(), &pb.SimpleRequest{})
				got <- err
			}()
			synctest.Wait() // the handler runs
			go func() {
				s.Stop()
				close(stopped)
			}()
			wantCode(t, <-got, codes.Unavailable) // before the handler returns
			synctest.Wait()
			early := false
			select {
			case <-stopped:
				early = true
			default:
			}
			if early == waits {
				t.Errorf("WaitForHandlers(%v): Stop has returned before the handler: %v", waits, early)
			}
			close(release)
			synctest.Wait()
			<-stopped
			if !returned {
				t.Error("the handler has not returned")
			}
			cc.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}
