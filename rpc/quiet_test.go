package rpc_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
)

// TestQuietStreams: streams on which nothing has come for so long that no goroutine reads their connection any more go on, and end by their
// deadline, the connection's age or the end of the client, as others do.
func TestQuietStreams(t *testing.T) {
	faultnet.NeedsTCP(t, "only sockets are watched while nothing comes")
	if testing.Short() {
		t.Skip("a connection becomes quiet after two seconds")
	}
	t.Parallel()
	const late = 3 * time.Second
	cert, roots := testcert.New(t)
	var alongside together
	defer alongside.wait()
	for security, c := range map[string]struct {
		server, client credentials.TransportCredentials
	}{
		"plain": {insecure.NewCredentials(), insecure.NewCredentials()},
		"tls":   {credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}}), credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: testcert.Name})},
	} {
		for name, x := range map[string]struct {
			handle func(pb.TestService_FullDuplexCallServer) error
			params keepalive.ServerParameters
			call   func(t *testing.T, st pb.TestService_FullDuplexCallClient) error
			ctx    func() (context.Context, context.CancelFunc)
			want   codes.Code // of the client and, but for OK, of the handler's context
		}{
			"echo after silence": {
				handle: func(st pb.TestService_FullDuplexCallServer) error {
					for range 3 {
						in, err := st.Recv()
						if err != nil {
							return err
						}
						if err := st.Send(&pb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
							return err
						}
					}
					return nil
				},
				call: func(t *testing.T, st pb.TestService_FullDuplexCallClient) error {
					for _, n := range []int{10, 3 << 20, 10} {
						<-time.After(late)
						if err := st.Send(&pb.StreamingOutputCallRequest{Payload: payload(n)}); err != nil {
							return err
						}
						out, err := st.Recv()
						if err != nil {
							return err
						}
						if len(out.Payload.Body) != n {
							t.Errorf("%d bytes came back, not %d", len(out.Payload.Body), n)
						}
					}
					return nil
				},
			},
			"pushed messages": { // on which the client's side has nothing to say
				handle: func(st pb.TestService_FullDuplexCallServer) error {
					for range 30 {
						<-time.After(late / 20)
						if err := st.Send(&pb.StreamingOutputCallResponse{Payload: payload(10)}); err != nil {
							return err
						}
					}
					return nil
				},
				call: func(_ *testing.T, st pb.TestService_FullDuplexCallClient) error {
					for range 30 {
						if _, err := st.Recv(); err != nil {
							return err
						}
					}
					return nil
				},
			},
			"the deadline": {
				handle: waitsForEnd,
				call:   receives,
				ctx:    func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), late) },
				want:   codes.DeadlineExceeded,
			},
			"the connection's age": {
				handle: waitsForEnd,
				params: keepalive.ServerParameters{MaxConnectionAge: late, MaxConnectionAgeGrace: late / 3},
				call:   receives,
				want:   codes.Unavailable,
			},
		} {
			alongside.run(t, security+"/"+name, func(t *testing.T) {
				handled := make(chan error, 1)
				svc := &testService{duplex: func(st pb.TestService_FullDuplexCallServer) error {
					err := x.handle(st)
					handled <- err
					return err
				}}
				_, addr := startTarn(t, svc, rpc.Creds(c.server), rpc.KeepaliveParams(x.params))
				cc := dialTarn(t, addr, rpc.WithTransportCredentials(c.client))
				ctx := ctxFor(t)
				if x.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = x.ctx()
					defer cancel()
				}
				st, err := pb.NewTestServiceClient(cc).FullDuplexCall(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if err := x.call(t, st); status.Code(err) != x.want {
					t.Errorf("the client's error: %v, want %v", err, x.want)
				}
				if err := <-handled; (err == nil) != (x.want == codes.OK) {
					t.Errorf("the handler's error: %v", err)
				}
			})
		}
	}
}

func waitsForEnd(st pb.TestService_FullDuplexCallServer) error {
	<-st.Context().Done()
	return st.Context().Err()
}

func receives(_ *testing.T, st pb.TestService_FullDuplexCallClient) error {
	_, err := st.Recv()
	return err
}
