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

// A wrong number of messages is UNIMPLEMENTED in Connect, as with connect-go, and INTERNAL in gRPC-Web, as with grpc-go.
func TestWebRequestCardinality(t *testing.T) {
	_, url := startWeb(t, &testService{})
	for _, c := range []struct{ name, method, contentType, message, want string }{
		{"Connect", "StreamingOutputCall", "application/connect+json", "{}", `"code":"unimplemented"`},
		{"gRPC-Web", "StreamingOutputCall", "application/grpc-web+proto", "", "grpc-status: 13"},
		{"unary gRPC-Web", "UnaryCall", "application/grpc-web+proto", "", "grpc-status: 13"},
	} {
		for name, body := range map[string]string{"no message": "", "two messages": envelope(c.message) + envelope(c.message)} {
			res, text := exchange(t, "POST", url+c.method, body, "Content-Type", c.contentType)
			if res.StatusCode != 200 || !strings.Contains(text, c.want) || !strings.Contains(text, "cardinality") {
				t.Errorf("%s, %s: %d %q", c.name, name, res.StatusCode, text)
			}
		}
	}
}

func TestWebResponseCardinality(t *testing.T) {
	for _, c := range []struct {
		name        string
		protocol    rpc.Protocol
		contentType string
		end         string
		want        codes.Code
	}{
		{"Connect", rpc.Connect, "application/connect+proto", "\x02\x00\x00\x00\x02{}", codes.Unimplemented},
		{"gRPC-Web", rpc.GRPCWeb, "application/grpc-web+proto", "\x80\x00\x00\x00\x0fgrpc-status: 0\n", codes.Internal},
	} {
		for name, messages := range map[string]string{"no message": "", "two messages": envelope("") + envelope("")} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", c.contentType)
					io.WriteString(w, messages+c.end)
				}))
				defer h.Close()
				s, err := pb.NewTestServiceClient(dialTarn(t, h.URL, rpc.WithProtocol(c.protocol))).StreamingInputCall(ctxFor(t))
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.CloseAndRecv()
				if st := status.Convert(err); st.Code() != c.want || !strings.Contains(st.Message(), "cardinality") {
					t.Error(err)
				}
			})
		}
	}
}
