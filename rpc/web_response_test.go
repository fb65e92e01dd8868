package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// failingCompressor compresses nothing.
type failingCompressor struct{}

func (failingCompressor) Name() string { return "fails" }
func (failingCompressor) Compress(io.Writer) (io.WriteCloser, error) {
	return nil, errors.New("no room")
}
func (failingCompressor) Decompress(r io.Reader) (io.Reader, error) { return r, nil }

// TestWebCompressorFails: the error of a response's compressor is the call's status. A unary call of Connect was answered with 200 and
// no body, which is an empty message.
func TestWebCompressorFails(t *testing.T) {
	encoding.RegisterCompressor(failingCompressor{})
	_, url := startWeb(t, &testService{})
	for _, x := range []struct {
		name, method, body string
		header             []string
		status             int
		want               string
	}{
		{"Connect", "UnaryCall", `{"payload":{"body":"aGVsbG8="}}`,
			[]string{"Content-Type", "application/json", "Accept-Encoding", "fails"}, 500, `"code":"internal"`},
		{"Connect stream", "StreamingOutputCall", envelope(`{"responseParameters":[{"size":10}]}`),
			[]string{"Content-Type", "application/connect+json", "Connect-Accept-Encoding", "fails"}, 200, `"code":"internal"`},
		{"gRPC-Web", "UnaryCall", envelope("\x1a\x05\x12\x03abc"),
			[]string{"Content-Type", "application/grpc-web+proto", "Grpc-Encoding", "fails"}, 200, "grpc-status: 13"},
	} {
		res, text := exchange(t, "POST", url+x.method, x.body, x.header...)
		if res.StatusCode != x.status || !strings.Contains(text, x.want) || !strings.Contains(text, "error while compressing") {
			t.Errorf("%s: %d %q", x.name, res.StatusCode, text)
		}
	}
}

// envelope is a message with gRPC's prefix.
func envelope(m string) string { return string(prefixed(0, []byte(m))) }

// TestWebResponseBeyondTheClientsLimit: on a port of Serve a header that is longer than what an HTTP/2 client announced is not sent; for Connect's
// unary calls that includes the trailer. The call ends with INTERNAL, which names the limit, on client and server, and further calls
// are made.
func TestWebResponseBeyondTheClientsLimit(t *testing.T) {
	long := metadata.Pairs("x", strings.Repeat("y", 8<<10))
	svc := &testService{
		unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			switch string(in.GetPayload().GetBody()) {
			case "header":
				grpc.SetHeader(ctx, long)
			case "header, and an error":
				grpc.SetHeader(ctx, long)
				return nil, status.Error(codes.NotFound, "gone")
			case "trailer":
				grpc.SetTrailer(ctx, long)
			case "trailer, and an error":
				grpc.SetTrailer(ctx, long)
				return nil, status.Error(codes.NotFound, "gone")
			}
			return &pb.SimpleResponse{}, nil
		},
		output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
			err := s.SendHeader(long)
			if status.Code(err) != codes.Internal {
				t.Errorf("SendHeader: %v", err)
			}
			return err
		},
	}
	_, addr := startTarn(t, svc)
	for _, p := range []rpc.Protocol{rpc.Connect, rpc.GRPCWeb} {
		rt := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}, DisableCompression: true, MaxResponseHeaderBytes: 4 << 10} // announced with ten fields' overhead, as by net/http
		t.Cleanup(rt.CloseIdleConnections)
		cc, err := rpc.NewClient("http://"+addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithRoundTripper(rt), rpc.WithProtocol(p))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cc.Close() })
		c := pb.NewTestServiceClient(cc)
		for _, x := range []struct {
			what    string
			inFrame bool // gRPC-Web sends it in the body
			want    codes.Code
		}{{"header", false, codes.Internal}, {"header, and an error", false, codes.Internal},
			{"trailer", true, codes.OK}, {"trailer, and an error", true, codes.NotFound}} {
			want := codes.Internal
			if p == rpc.GRPCWeb {
				want = x.want
			}
			_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(x.what)}})
			if status.Code(err) != want || want == codes.Internal && !strings.Contains(err.Error(), "the client takes 4416") {
				t.Errorf("%v, %s: %v", p, x.what, err)
			}
		}
		s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "the client takes 4416") {
			t.Errorf("%v, stream: %v", p, err)
		}
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
			t.Errorf("%v, the next call: %v", p, err)
		}
	}
}

// TestWebHeaderThatDidNotFit: a stream whose header did not fit fails, also if its handler goes on after SendHeader's error.
func TestWebHeaderThatDidNotFit(t *testing.T) {
	var then func(pb.TestService_StreamingOutputCallServer) error
	svc := &testService{output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
		if err := s.SendHeader(metadata.Pairs("x", strings.Repeat("y", 8<<10))); status.Code(err) != codes.Internal {
			t.Errorf("SendHeader: %v", err)
		}
		return then(s)
	}}
	_, addr := startTarn(t, svc)
	for _, p := range []rpc.Protocol{rpc.Connect, rpc.GRPCWeb} {
		rt := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}, DisableCompression: true, MaxResponseHeaderBytes: 4 << 10}
		t.Cleanup(rt.CloseIdleConnections)
		cc, err := rpc.NewClient("http://"+addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithRoundTripper(rt), rpc.WithProtocol(p))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cc.Close() })
		for _, end := range []error{nil, status.Error(codes.NotFound, "gone")} {
			for _, sends := range []int{0, 1} {
				then = func(s pb.TestService_StreamingOutputCallServer) error {
					for range sends {
						if err := s.Send(&pb.StreamingOutputCallResponse{}); status.Code(err) != codes.Internal {
							t.Errorf("%v: Send: %v", p, err)
						}
					}
					return end
				}
				s, err := pb.NewTestServiceClient(cc).StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				for err == nil {
					_, err = s.Recv()
				}
				if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "the client takes 4416") {
					t.Errorf("%v, %d messages, then %v: %v", p, sends, end, err)
				}
			}
		}
	}
}

// TestWebResponseAtTheClientsLimit: headers around the length that an HTTP/2 client takes are either received or refused by the server, which
// counts the field of the compression.
func TestWebResponseAtTheClientsLimit(t *testing.T) {
	n := 0
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		grpc.SetHeader(ctx, metadata.Pairs("x", strings.Repeat("y", n)))
		return &pb.SimpleResponse{Payload: payload(1 << 10)}, nil
	}}
	_, addr := startTarn(t, svc)
	rt := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}, DisableCompression: true, MaxResponseHeaderBytes: 4 << 10}
	t.Cleanup(rt.CloseIdleConnections)
	cc, err := rpc.NewClient("http://"+addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithRoundTripper(rt), rpc.WithProtocol(rpc.Connect))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	received, refused := false, false
	for n = 3 << 10; n < 4<<10+512; n += 8 {
		_, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(1)}, grpc.UseCompressor("gzip"))
		switch {
		case err == nil:
			received = true
		case status.Code(err) == codes.Internal && strings.Contains(err.Error(), "the client takes 4416"):
			refused = true
		default:
			t.Errorf("a field of %d bytes: %v", n, err)
		}
	}
	if !received || !refused {
		t.Errorf("received: %v, refused: %v", received, refused)
	}
}

// TestWebLongListsForPeersThatNameNoLimit: a header that might make a client without an announced limit end the connection is not sent to
// it, over Connect either.
func TestWebLongListsForPeersThatNameNoLimit(t *testing.T) {
	values := map[string]string{"short": strings.Repeat("\\", 60<<10), "long": strings.Repeat("\\", 70<<10)}
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		grpc.SetHeader(ctx, metadata.Pairs("x", values[md.Get("which")[0]]))
		return &pb.SimpleResponse{Username: "x"}, nil
	}}
	_, addr := startTarn(t, svc)
	p := rawClient(t, addr)
	for which, want := range map[string]string{"short": "200", "long": "500"} {
		for range 2 {
			h := p.answer(p.open(true, "content-type", "application/proto", "which", which))
			if h[":status"] != want {
				t.Errorf("%s: %v", which, h[":status"])
			}
		}
	}
}

// TestSendMsgInPlaceOverWeb: the function is called once for each message and the message arrives, in every protocol, over each version
// of HTTP.
func TestSendMsgInPlaceOverWeb(t *testing.T) {
	sizes := []int{0, 100, 1 << 20, 2 << 20}
	for _, on := range carriers {
		for _, p := range []rpc.Protocol{rpc.Connect, rpc.GRPCWeb} {
			t.Run(on.name+"/"+p.String(), func(t *testing.T) {
				var replies sync.WaitGroup
				svc := &testService{output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
					for _, n := range sizes {
						replies.Add(1)
						if err := rpc.SendMsgInPlace(s.Context(), &pb.StreamingOutputCallResponse{Payload: payload(n)}, replies.Done); err != nil {
							return err
						}
					}
					return nil
				}}
				s, err := pb.NewTestServiceClient(on.start(t, svc, rpc.WithProtocol(p))).StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range sizes {
					out, err := s.Recv()
					if err != nil || !bytes.Equal(out.GetPayload().GetBody(), body(n)) {
						t.Fatalf("%d bytes: %v", n, err)
					}
				}
				if _, err := s.Recv(); err != io.EOF {
					t.Fatal(err)
				}
				within(t, "the calls of SendMsgInPlace's function", replies.Wait)
			})
		}
	}
}

// TestConnectEmptyCompressed: an empty message is not decompressed, in requests and in responses whose header names a compression.
func TestConnectEmptyCompressed(t *testing.T) {
	_, url := startWeb(t, &testService{})
	res, text := exchange(t, "POST", url+"UnaryCall", "", "Content-Type", "application/proto", "Content-Encoding", "gzip")
	if res.StatusCode != 200 {
		t.Errorf("request: %d %q", res.StatusCode, text)
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/proto")
		w.Header().Set("Content-Encoding", "gzip")
	}))
	defer h.Close()
	cc, err := rpc.NewClient(h.URL, rpc.WithPool(tarntest.NewPool(t)), rpc.WithProtocol(rpc.Connect),
		rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
		t.Errorf("response: %v", err)
	}
}

// TestConnectEmptyCompressedEnvelope: an empty message of a stream is not decompressed, whatever its flag says, if the header names a
// compression.
func TestConnectEmptyCompressedEnvelope(t *testing.T) {
	const empty, end = "\x01\x00\x00\x00\x00", "\x02\x00\x00\x00\x02{}"
	svc := &testService{output: func(_ *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error { return nil }}
	_, url := startWeb(t, svc)
	for _, c := range []struct{ compression, want string }{{"gzip", end}, {"identity", "compressed flag set with identity"}} {
		res, text := exchange(t, "POST", url+"StreamingOutputCall", empty, "Content-Type", "application/connect+proto", "Connect-Content-Encoding", c.compression)
		if res.StatusCode != 200 || !strings.Contains(text, c.want) {
			t.Errorf("request, %s: %d %q", c.compression, res.StatusCode, text)
		}
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/connect+proto")
			w.Header().Set("Connect-Content-Encoding", c.compression)
			io.WriteString(w, empty+end)
		}))
		s, err := pb.NewTestServiceClient(dialTarn(t, h.URL, rpc.WithProtocol(rpc.Connect))).StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		if c.want == end && err != nil || c.want != end && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("response, %s: %v", c.compression, err)
		}
		h.Close()
	}
}
