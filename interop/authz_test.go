package interop

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/authz"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

const onlyEmptyCall = `{"name":"test","allow_rules":[{"name":"one","request":{"paths":["/grpc.testing.TestService/EmptyCall"]}}]}`

// TestAuthz: package authz's interceptors ask for the call's connection. Calls that have none, over Connect or
// through ServeHTTP, are refused, as they are by grpc-go's own ServeHTTP.
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
	web := httptest.NewServer(s)
	defer web.Close()
	for _, url := range []string{"http://" + lis.Addr().String(), web.URL} {
		r, err := http.Post(url+"/grpc.testing.TestService/EmptyCall", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusInternalServerError {
			t.Errorf("a permitted call over Connect: %s", r.Status)
		}
	}

	stock := grpc.NewServer(grpc.ChainUnaryInterceptor(policy.UnaryInterceptor))
	testgrpc.RegisterTestServiceServer(stock, &loaded{})
	h := httptest.NewUnstartedServer(stock)
	h.Config.Protocols = new(http.Protocols)
	h.Config.Protocols.SetUnencryptedHTTP2(true)
	h.Start()
	defer h.Close()
	plain, err := grpc.NewClient(h.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := testgrpc.NewTestServiceClient(plain).EmptyCall(t.Context(), &testgrpc.Empty{}); status.Code(err) != codes.Internal {
		t.Errorf("a permitted call through grpc-go's ServeHTTP: %v", err)
	}
}
