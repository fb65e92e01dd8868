package web

import (
	"net"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// The protocols on package h2http, whose bodies are references to pooled memory.
func TestConnectGoOnH2HTTP(t *testing.T) {
	pool := tarntest.NewPool(t)
	s := rpc.NewServer(rpc.Pool(pool))
	pb.RegisterTestServiceServer(s, service{})
	srv := &http.Server{Handler: s}
	if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: pool}); err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h2http.Serve(lis, srv) }()
	defer func() {
		srv.Close()
		<-done
	}()
	unencrypted := new(http.Protocols)
	unencrypted.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: unencrypted}}
	defer client.CloseIdleConnections()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			c := connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](client, "http://"+lis.Addr().String()+base+"UnaryCall", p.opts...)
			for _, size := range []int{0, 100, 20000, 300000, 2 << 20} {
				res, err := c.CallUnary(ctxFor(t), connect.NewRequest(&pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, size)}}))
				if err != nil || len(res.Msg.GetPayload().GetBody()) != size {
					t.Errorf("%d bytes: %v", size, err)
				}
			}
			both := connect.NewClient[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse](client, "http://"+lis.Addr().String()+base+"FullDuplexCall", p.opts...)
			st := both.CallBidiStream(ctxFor(t))
			for i := range 20 {
				if err := st.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: make([]byte, i*1000)}}); err != nil {
					t.Fatal(err)
				}
				if m, err := st.Receive(); err != nil || len(m.GetPayload().GetBody()) != i*1000 {
					t.Fatalf("%d: %v", i, err)
				}
			}
			st.CloseRequest()
			st.CloseResponse()
		})
	}
}
