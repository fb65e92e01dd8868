package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

const (
	unaryPath  = "/grpc.testing.BenchmarkService/UnaryCall"
	streamPath = "/grpc.testing.BenchmarkService/StreamingCall"
)

// connectPeer is connect-go with the gRPC protocol over net/http.
func connectPeer() peer {
	return peer{name: "connect", serve: serveConnect, client: dialConnect}
}

func serveConnect(tb testing.TB, l net.Listener, sec security) {
	svc := newService()
	mux := http.NewServeMux()
	mux.Handle(unaryPath, connect.NewUnaryHandler(unaryPath,
		func(_ context.Context, req *connect.Request[pb.SimpleRequest]) (*connect.Response[pb.SimpleResponse], error) {
			resp, err := svc.answer(req.Msg)
			return connect.NewResponse(resp), err
		}))
	mux.Handle(streamPath, connect.NewBidiStreamHandler(streamPath,
		func(_ context.Context, s *connect.BidiStream[pb.SimpleRequest, pb.SimpleResponse]) error {
			for {
				req, err := s.Receive()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				resp, err := svc.answer(req)
				if err != nil {
					return err
				}
				if err := s.Send(resp); err != nil {
					return err
				}
			}
		}))
	server := &http.Server{Handler: mux, Protocols: http2Only(), ErrorLog: log.New(io.Discard, "", 0)}
	if sec.server != nil {
		l = tls.NewListener(l, sec.server)
	}
	go server.Serve(l) // ends with Close
	tb.Cleanup(func() { server.Close() })
}

func http2Only() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

type connectClient struct {
	unaryCall  *connect.Client[pb.SimpleRequest, pb.SimpleResponse]
	streamCall *connect.Client[pb.SimpleRequest, pb.SimpleResponse]
}

func dialConnect(tb testing.TB, addr string, sec security) client {
	tr := &http.Transport{Protocols: http2Only(), DisableCompression: true}
	url := "http://" + addr
	if sec.client != nil {
		url = "https://" + addr
		tr.TLSClientConfig = sec.client.Clone()
	}
	tb.Cleanup(tr.CloseIdleConnections)
	h := &http.Client{Transport: tr}
	return &connectClient{
		connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](h, url+unaryPath, connect.WithGRPC()),
		connect.NewClient[pb.SimpleRequest, pb.SimpleResponse](h, url+streamPath, connect.WithGRPC()),
	}
}

func (c *connectClient) unary(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	resp, err := c.unaryCall.CallUnary(ctx, connect.NewRequest(req))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

func (c *connectClient) stream(ctx context.Context) (func(*pb.SimpleRequest) (*pb.SimpleResponse, error), error) {
	s := c.streamCall.CallBidiStream(ctx)
	return func(req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if err := s.Send(req); err != nil {
			return nil, err
		}
		return s.Receive()
	}, nil
}
