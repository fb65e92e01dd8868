package web

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// TestBesideConnectGo: in one program, on one port and in one ServeMux, the same service is served by connect-go
// and by Tarn. connect-go's client calls both in every protocol at the same time, over HTTP/1.1 and HTTP/2, on
// net/http and on package h2http, and gets the same answers and errors; Tarn's gRPC client uses the port, too.
func TestBesideConnectGo(t *testing.T) {
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	for _, by := range []struct {
		name  string
		serve func(*http.Server, net.Listener) error
	}{
		{"net-http", func(s *http.Server, lis net.Listener) error {
			s.Protocols = both
			return s.Serve(lis)
		}},
		{"h2http", func(s *http.Server, lis net.Listener) error { return h2http.Serve(lis, s) }},
	} {
		t.Run(by.name, func(t *testing.T) {
			pool := tarntest.NewPool(t)
			s := rpc.NewServer(rpc.Pool(pool))
			pb.RegisterTestServiceServer(s, service{})
			mux := http.NewServeMux()
			mux.Handle(base, s)
			mux.Handle("/connect-go"+base, http.StripPrefix("/connect-go", connectHandlers()))
			srv := &http.Server{Handler: mux}
			if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: pool}); err != nil {
				t.Fatal(err)
			}
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- by.serve(srv, lis) }()
			defer func() {
				srv.Close()
				<-done
			}()
			h1, h2 := &http.Transport{}, &http.Transport{Protocols: new(http.Protocols)}
			h2.Protocols.SetUnencryptedHTTP2(true)
			defer h1.CloseIdleConnections()
			defer h2.CloseIdleConnections()
			var calls sync.WaitGroup
			for _, p := range protocols {
				for _, prefix := range []string{"", "/connect-go"} {
					for _, tr := range []*http.Transport{h1, h2} {
						if tr == h1 && !p.http1 {
							continue
						}
						calls.Go(func() {
							callBoth(t, p.name+" "+prefix, &http.Client{Transport: tr}, "http://"+lis.Addr().String()+prefix+base, p.opts)
						})
					}
				}
			}
			cc, err := rpc.NewClient(lis.Addr().String(), rpc.WithPool(pool), rpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
				t.Error("over gRPC:", err)
			}
			calls.Wait()
		})
	}
}

// callBoth makes a unary call, one that fails, and a stream of the server.
func callBoth(t *testing.T, name string, h *http.Client, url string, opts []connect.ClientOption) {
	unary := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](h, url+"UnaryCall", opts...)
	body := bytes.Repeat([]byte(name), 500)
	req := connect.NewRequest(&pb.SimpleRequest{Payload: &pb.Payload{Body: body}})
	req.Header().Set("X-Echo", "hello")
	res, err := unary.CallUnary(ctxFor(t), req)
	switch {
	case err != nil:
		t.Errorf("%s: %v", name, err)
	case !bytes.Equal(res.Msg.GetPayload().GetBody(), body):
		t.Errorf("%s: other bytes came back", name)
	case res.Header().Get("X-Echo-Header") != "hello" || res.Trailer().Get("X-Echo-Trailer") != "hello":
		t.Errorf("%s: header %v, trailer %v", name, res.Header(), res.Trailer())
	}
	_, err = unary.CallUnary(ctxFor(t), connect.NewRequest(&pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 5, Message: "not here"}}))
	var failure *connect.Error
	if !errors.As(err, &failure) || failure.Code() != connect.CodeNotFound || failure.Message() != "not here" || len(failure.Details()) != 1 {
		t.Errorf("%s: an error is %v", name, err)
	}
	stream, err := connect.NewClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](h, url+"StreamingOutputCall", opts...).
		CallServerStream(ctxFor(t), connect.NewRequest(&pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 10}, {Size: 70000}}}))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer stream.Close()
	total := 0
	for stream.Receive() {
		total += len(stream.Msg().GetPayload().GetBody())
	}
	if stream.Err() != nil || total != 70010 {
		t.Errorf("%s: %d bytes of a stream, %v", name, total, stream.Err())
	}
}
