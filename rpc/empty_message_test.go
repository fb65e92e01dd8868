package rpc_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// emptyCompressed is an empty message whose prefix says that it is compressed.
const emptyCompressed = "\x01\x00\x00\x00\x00"

// serveHTTP2 serves h without TLS on net/http's server, over HTTP/2 and HTTP/1.1.
func serveHTTP2(t *testing.T, h http.Handler) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.Protocols.SetHTTP1(true)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// TestEmptyCompressedRequest: an empty message of gRPC or gRPC-Web is not decompressed if the header names a compression, as in gRPC C++ and
// connect-go; grpc-go refuses it. Without a compression the flag is a mistake everywhere.
func TestEmptyCompressedRequest(t *testing.T) {
	_, serve := startTarn(t, &testService{})
	_, stock := startGRPC(t, &testService{})
	behind := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)))
	pb.RegisterTestServiceServer(behind, &testService{})
	serveHTTP := serveHTTP2(t, behind)
	client := clients(t)[2]
	text := base64.StdEncoding.EncodeToString([]byte(emptyCompressed))
	for _, x := range []struct {
		name, addr, contentType, body, encoding string
		want                                    string
	}{
		{"gRPC", serve, "application/grpc", emptyCompressed, "gzip", "0"},
		{"gRPC, ServeHTTP", serveHTTP, "application/grpc", emptyCompressed, "gzip", "0"},
		{"gRPC, grpc-go", stock, "application/grpc", emptyCompressed, "gzip", "13"},
		{"gRPC-Web", serve, "application/grpc-web", emptyCompressed, "gzip", "0"},
		{"gRPC-Web, ServeHTTP", serveHTTP, "application/grpc-web", emptyCompressed, "gzip", "0"},
		{"gRPC-Web, text", serve, "application/grpc-web-text", text, "gzip", "0"},
		{"gRPC", serve, "application/grpc", emptyCompressed, "", "13"},
		{"gRPC, ServeHTTP", serveHTTP, "application/grpc", emptyCompressed, "", "13"},
		{"gRPC, grpc-go", stock, "application/grpc", emptyCompressed, "", "13"},
		{"gRPC-Web", serve, "application/grpc-web", emptyCompressed, "identity", "13"},
	} {
		r, err := http.NewRequestWithContext(ctxFor(t), "POST", "http://"+x.addr+"/grpc.testing.TestService/UnaryCall", strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", x.contentType)
		r.Header.Set("Te", "trailers")
		if x.encoding != "" {
			r.Header.Set("Grpc-Encoding", x.encoding)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		got := res.Header.Get("Grpc-Status") + res.Trailer.Get("Grpc-Status")
		if got == "" {
			if strings.Contains(x.contentType, "text") {
				content = webText(t, string(content))
			}
			_, after, _ := strings.Cut(string(content), "grpc-status: ")
			got, _, _ = strings.Cut(after, "\r\n")
		}
		if got != x.want {
			t.Errorf("%s, grpc-encoding %q: status %q, want %s", x.name, x.encoding, got, x.want)
		}
	}
}

// TestEmptyCompressedResponse: as in TestEmptyCompressedRequest.
func TestEmptyCompressedResponse(t *testing.T) {
	for _, x := range []struct {
		encoding    string
		ours, stock codes.Code
	}{
		{"gzip", codes.OK, codes.Internal},
		{"identity", codes.Internal, codes.Internal},
	} {
		addr := serveHTTP2(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			w.Header().Set("Grpc-Encoding", x.encoding)
			io.WriteString(w, emptyCompressed)
			if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc-web") {
				io.WriteString(w, "\x80\x00\x00\x00\x10grpc-status: 0\r\n")
				return
			}
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		}))
		for name, c := range map[string]struct {
			cc   grpc.ClientConnInterface
			want codes.Code
		}{
			"gRPC":     {dialTarn(t, addr), x.ours},
			"gRPC-Web": {dialTarn(t, addr, rpc.WithProtocol(rpc.GRPCWeb)), x.ours},
			"grpc-go":  {dialGRPC(t, addr), x.stock},
		} {
			_, err := pb.NewTestServiceClient(c.cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
			if status.Code(err) != c.want {
				t.Errorf("%s, grpc-encoding %q: %v, want %v", name, x.encoding, err, c.want)
			}
		}
	}
}
