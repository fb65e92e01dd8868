package rpc_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// An http.Transport that hands requests over (RegisterProtocol) says of none which connection it has.
func TestTransportHandsOver(t *testing.T) {
	for _, handlers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tr := &http.Transport{}
			tr.RegisterProtocol("http", tripperFunc(func(r *http.Request) (*http.Response, error) {
				_, err := io.Copy(io.Discard, r.Body)
				r.Body.Close()
				return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, ProtoMajor: 2, Body: http.NoBody, Request: r,
					Header: http.Header{"Content-Type": {"application/grpc-web+proto"}, "Grpc-Status": {"0"}}}, err
			}))
			opts := []rpc.DialOption{rpc.WithProtocol(rpc.GRPCWeb), rpc.WithRoundTripper(tr)}
			if handlers {
				opts = append(opts, rpc.WithStatsHandler(newEventLog()))
			}
			cc, err := rpc.NewClient("http://handed.invalid", opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			st, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/a.B/C")
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := st.SendMsg(&pb.SimpleRequest{}); err != nil {
					t.Fatal(err)
				}
			}
			st.CloseSend()
			if err := st.RecvMsg(new(pb.SimpleResponse)); err != io.EOF {
				t.Errorf("handlers %v: %v", handlers, err)
			}
		})
	}
}

// A method without the slash is malformed in each protocol, as in grpc-go, and is not put behind the last name of the URL's path.
func TestMethodWithoutSlash(t *testing.T) {
	called := 0
	_, addr := startTarn(t, &testService{})
	clients := map[string]*rpc.ClientConn{"gRPC": dialTarn(t, addr)}
	for _, p := range []rpc.Protocol{rpc.Connect, rpc.GRPCWeb} {
		clients[p.String()] = dialTarn(t, addr, rpc.WithProtocol(p))
		clients[p.String()+" below a path"] = dialBy(t, addr+"/prefix", tripperFunc(func(*http.Request) (*http.Response, error) {
			called++
			return nil, io.ErrUnexpectedEOF
		}), rpc.WithProtocol(p))
	}
	for name, cc := range clients {
		err := cc.Invoke(ctxFor(t), "grpc.testing.TestService/UnaryCall", &pb.SimpleRequest{}, new(pb.SimpleResponse))
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", name, err)
		}
		st, err := cc.NewStream(ctxFor(t), &grpc.StreamDesc{ServerStreams: true}, "grpc.testing.TestService/UnaryCall")
		if err == nil {
			st.SendMsg(&pb.SimpleRequest{})
			st.CloseSend()
			err = st.RecvMsg(new(pb.SimpleResponse))
		}
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", name, err)
		}
	}
	if called != 0 {
		t.Errorf("%d requests were made", called)
	}
}
