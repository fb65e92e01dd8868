package h2http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type text = wrapperspb.StringValue

// connectMux has a procedure of every kind.
func connectMux() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/test/Unary", connect.NewUnaryHandler("/test/Unary", func(ctx context.Context, r *connect.Request[text]) (*connect.Response[text], error) {
		if r.Msg.Value == "fail" {
			return nil, connect.NewError(connect.CodeNotFound, errors.New("not here"))
		}
		resp := connect.NewResponse(wrapperspb.String("echo " + r.Msg.Value))
		resp.Header().Set("X-Header", r.Header().Get("X-Header"))
		resp.Trailer().Set("X-Trailer", "t")
		return resp, nil
	}))
	mux.Handle("/test/Client", connect.NewClientStreamHandler("/test/Client", func(ctx context.Context, s *connect.ClientStream[text]) (*connect.Response[text], error) {
		n := 0
		for s.Receive() {
			n += len(s.Msg().Value)
		}
		return connect.NewResponse(wrapperspb.String(fmt.Sprint(n))), s.Err()
	}))
	mux.Handle("/test/Server", connect.NewServerStreamHandler("/test/Server", func(ctx context.Context, r *connect.Request[text], s *connect.ServerStream[text]) error {
		for range 20 {
			if err := s.Send(r.Msg); err != nil {
				return err
			}
		}
		return nil
	}))
	mux.Handle("/test/Both", connect.NewBidiStreamHandler("/test/Both", func(ctx context.Context, s *connect.BidiStream[text, text]) error {
		for {
			m, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := s.Send(m); err != nil {
				return err
			}
		}
	}))
	return mux
}

func TestConnect(t *testing.T) {
	eachWay(t, func(t *testing.T, s security) {
		c := client(t)
		if s == configured {
			c = netHTTPClient(t)
		}
		url := serve(t, s, connectMux())
		for name, options := range map[string][]connect.ClientOption{
			"Connect":  nil,
			"gRPC":     {connect.WithGRPC()},
			"gRPC-Web": {connect.WithGRPCWeb()},
			"JSON":     {connect.WithProtoJSON()},
			"gzip":     {connect.WithSendGzip()},
		} {
			t.Run(name, func(t *testing.T) { connectCalls(t, c, url, options) })
		}
	})
}

func connectCalls(t *testing.T, c *http.Client, url string, options []connect.ClientOption) {
	ctx := context.Background()
	unary := connect.NewClient[text, text](c, url+"/test/Unary", options...)
	for _, n := range []int{1, 100, 100000} {
		req := connect.NewRequest(wrapperspb.String(strings.Repeat("x", n)))
		req.Header().Set("X-Header", "h")
		resp, err := unary.CallUnary(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Msg.Value) != n+5 || resp.Header().Get("X-Header") != "h" || resp.Trailer().Get("X-Trailer") != "t" {
			t.Errorf("unary of %d bytes: %d bytes, %v %v", n, len(resp.Msg.Value), resp.Header(), resp.Trailer())
		}
	}
	if _, err := unary.CallUnary(ctx, connect.NewRequest(wrapperspb.String("fail"))); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an error came as %v", err)
	}

	up := connect.NewClient[text, text](c, url+"/test/Client", options...).CallClientStream(ctx)
	for range 20 {
		if err := up.Send(wrapperspb.String(strings.Repeat("x", 10000))); err != nil {
			t.Fatal(err)
		}
	}
	if resp, err := up.CloseAndReceive(); err != nil || resp.Msg.Value != "200000" {
		t.Errorf("client stream: %v, %v", resp, err)
	}

	down, err := connect.NewClient[text, text](c, url+"/test/Server", options...).CallServerStream(ctx, connect.NewRequest(wrapperspb.String(strings.Repeat("x", 10000))))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for down.Receive() {
		n += len(down.Msg().Value)
	}
	if err := down.Err(); err != nil || n != 200000 {
		t.Errorf("server stream: %d bytes, %v", n, err)
	}
	down.Close()

	stream := connect.NewClient[text, text](c, url+"/test/Both", options...).CallBidiStream(ctx)
	for i := range 20 {
		want := fmt.Sprint("message ", i)
		if err := stream.Send(wrapperspb.String(want)); err != nil {
			t.Fatal(err)
		}
		if m, err := stream.Receive(); err != nil || m.Value != want {
			t.Fatalf("bidirectional stream: %v, %v", m, err)
		}
	}
	stream.CloseRequest()
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	stream.CloseResponse()

	ended, cancel := context.WithCancel(ctx)
	stream = connect.NewClient[text, text](c, url+"/test/Both", options...).CallBidiStream(ended)
	if err := stream.Send(wrapperspb.String("x")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := stream.Receive(); err == nil {
		_, err = stream.Receive()
		if connect.CodeOf(err) != connect.CodeCanceled {
			t.Errorf("a cancelled stream ended with %v", err)
		}
	}
	stream.CloseRequest()
	stream.CloseResponse()
}
