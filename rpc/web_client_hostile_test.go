package rpc_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// A server's invalid answer ends the call with a status that describes it, and leaks nothing.
func TestWebClientHostileAnswers(t *testing.T) {
	ok := http.Header{"Content-Type": {"application/grpc-web+proto"}}
	stream := http.Header{"Content-Type": {"application/connect+proto"}}
	unary := http.Header{"Content-Type": {"application/proto"}}
	jsonError := http.Header{"Content-Type": {"application/json"}}
	for _, c := range []struct {
		name   string
		p      rpc.Protocol
		stream bool
		status int
		header http.Header
		body   string
		code   codes.Code
		says   string
	}{
		{"no status", rpc.GRPCWeb, false, 200, ok, "\x00\x00\x00\x00\x00", codes.Internal, "without a status"},
		{"no message", rpc.GRPCWeb, false, 200, ok, "\x80\x00\x00\x00\x0fgrpc-status: 0\n", codes.Internal, "no response message"},
		{"two messages", rpc.GRPCWeb, false, 200, ok, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00\x00\x00\x0fgrpc-status: 0\n", codes.Internal, "another message"},
		{"a status of letters", rpc.GRPCWeb, false, 200, ok, "\x80\x00\x00\x00\x0fgrpc-status: x\n", codes.Internal, "malformed"},
		{"details that are not base64", rpc.GRPCWeb, false, 200, ok, "\x80\x00\x00\x00\x2agrpc-status: 5\ngrpc-status-details-bin: *\n", codes.Internal, "malformed grpc-status-details-bin"},
		{"a trailer without a colon", rpc.GRPCWeb, false, 200, ok, "\x80\x00\x00\x00\x04abcd", codes.Internal, "colon"},
		{"a compressed trailer without compression", rpc.GRPCWeb, false, 200, ok, "\x81\x00\x00\x00\x0fgrpc-status: 0\n", codes.Internal, "compressed"},
		{"a message after the end", rpc.GRPCWeb, true, 200, ok, "\x80\x00\x00\x00\x0fgrpc-status: 0\n\x00\x00\x00\x00\x00", codes.Internal, "after the end"},
		{"an unknown flag", rpc.GRPCWeb, true, 200, ok, "\x40\x00\x00\x00\x00", codes.Internal, "flag"},
		{"Connect's flag in gRPC-Web", rpc.GRPCWeb, true, 200, ok, "\x02\x00\x00\x00\x02{}", codes.Internal, "flag"},
		{"half a prefix", rpc.GRPCWeb, true, 200, ok, "\x00\x00", codes.Internal, "inside a message"},
		{"a length above the limit", rpc.GRPCWeb, true, 200, ok, "\x00\xff\xff\xff\xff", codes.ResourceExhausted, "larger than max"},
		{"a page", rpc.GRPCWeb, false, 200, http.Header{"Content-Type": {"text/html"}}, "<p>", codes.Unknown, "text/html"},
		{"no page", rpc.GRPCWeb, false, 404, http.Header{}, "", codes.Unimplemented, "404"},
		{"a status alone", rpc.GRPCWeb, false, 200, http.Header{"Content-Type": {"application/grpc-web"}, "Grpc-Status": {"5"}, "Grpc-Message": {"no%20such"}}, "", codes.NotFound, "no such"},
		{"OK alone, for a unary call", rpc.GRPCWeb, false, 200, http.Header{"Content-Type": {"application/grpc-web"}, "Grpc-Status": {"0"}}, "", codes.Internal, "no response message"},
		{"OK alone, for a stream", rpc.GRPCWeb, true, 200, http.Header{"Content-Type": {"application/grpc-web"}, "Grpc-Status": {"0"}}, "", codes.Unknown, "EOF"},
		{"a status before a body", rpc.GRPCWeb, false, 200, http.Header{"Content-Type": {"application/grpc-web"}, "Grpc-Status": {"5"}}, "\x80\x00\x00\x00\x0fgrpc-status: 9\n", codes.FailedPrecondition, ""},
		{"an unknown compression", rpc.GRPCWeb, false, 200, http.Header{"Content-Type": {"application/grpc-web"}, "Grpc-Encoding": {"rot13"}}, "", codes.Internal, "rot13"},
		{"an end that is no JSON", rpc.Connect, true, 200, stream, "\x02\x00\x00\x00\x02{]", codes.Internal, "malformed"},
		{"an error without a code", rpc.Connect, true, 200, stream, "\x02\x00\x00\x00\x0c{\"error\":{}}", codes.Unknown, ""},
		{"no end", rpc.Connect, true, 200, stream, "", codes.Internal, "without a status"},
		{"another codec", rpc.Connect, true, 200, http.Header{"Content-Type": {"application/connect+json"}}, "", codes.Internal, "connect+json"},
		{"JSON for protobuf", rpc.Connect, false, 200, http.Header{"Content-Type": {"application/json"}}, "{}", codes.Internal, "application/json"},
		{"no content type", rpc.Connect, false, 200, http.Header{"Content-Type": {"image/jpeg"}}, "", codes.Unknown, "image/jpeg"},
		{"no protobuf", rpc.Connect, false, 200, unary, "\xff", codes.Internal, "unmarshal"},
		{"an error", rpc.Connect, false, 404, jsonError, `{"code":"not_found","message":"m","details":[{"type":"a.B","value":"!"}]}`, codes.NotFound, "m"},
		{"an error of no known code", rpc.Connect, false, 503, jsonError, `{"code":"tired","message":"m"}`, codes.Unavailable, "m"},
		{"an error that is no JSON", rpc.Connect, false, 403, jsonError, `{`, codes.PermissionDenied, "403"},
		{"a proxy's error", rpc.Connect, false, 502, http.Header{"Content-Type": {"text/html"}}, `bad`, codes.Unavailable, "502"},
		{"an error of a stream in JSON", rpc.Connect, true, 401, jsonError, `{"code":"unauthenticated","message":"who"}`, codes.Unauthenticated, "who"},
		{"bad binary metadata", rpc.Connect, false, 200, http.Header{"Content-Type": {"application/proto"}, "X-Bin": {"!"}}, "", codes.Internal, "x-bin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				for k, vs := range c.header {
					w.Header()[k] = vs
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			}))
			defer h.Close()
			client := pb.NewTestServiceClient(dialTarn(t, h.URL, rpc.WithProtocol(c.p)))
			var err error
			if c.stream {
				s, serr := client.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				if serr != nil {
					t.Fatal(serr)
				}
				for err == nil {
					_, err = s.Recv()
				}
			} else {
				_, err = client.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
			}
			if st := status.Convert(err); st.Code() != c.code || !strings.Contains(st.Message(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
