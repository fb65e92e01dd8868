package interop

import (
	"net"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/authz"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

const onlyEmptyCall = `{"name":"test","allow_rules":[{"name":"one","request":{"paths":["/grpc.testing.TestService/EmptyCall"]}}]}`

// TestAuthz: package authz's interceptors ask for the call's connection.
func TestAuthz(t *testing.T) {
	policy, err := authz.NewStatic(onlyEmptyCall)
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(rpc.ChainUnaryInterceptor(policy.UnaryInterceptor), rpc.ChainStreamInterceptor(policy.StreamInterceptor),
		rpc.Pool(tarntest.NewPool(t)))
	testgrpc.RegisterTestServiceServer(s, &loaded{})
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(lis)
	t.Cleanup(s.Stop)
	cc, err := rpc.NewClient(lis.Addr().String(), rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithPool(tarntest.NewPool(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	c := testgrpc.NewTestServiceClient(cc)
	if _, err := c.EmptyCall(t.Context(), &testgrpc.Empty{}); err != nil {
		t.Errorf("a permitted call: %v", err)
	}
	if _, err := c.UnaryCall(t.Context(), &testgrpc.SimpleRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a call that the policy does not permit: %v", err)
	}
	stream, err := c.FullDuplexCall(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a stream that the policy does not permit: %v", err)
	}
}
