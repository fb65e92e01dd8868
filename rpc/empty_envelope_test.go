package rpc_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// TestEmptyCompressedEnvelope: in streams of Connect, too, an empty message is not decompressed if the header names a compression.
func TestEmptyCompressedEnvelope(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	for major, client := range clients(t) {
		for encoding, fine := range map[string]bool{"gzip": true, "": false} {
			r, err := http.NewRequestWithContext(ctxFor(t), "POST", "http://"+addr+"/grpc.testing.TestService/StreamingInputCall", strings.NewReader(emptyCompressed))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/connect+proto")
			if encoding != "" {
				r.Header.Set("Connect-Content-Encoding", encoding)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || strings.Contains(string(content), `"error"`) == fine {
				t.Errorf("HTTP/%d, encoding %q: %q, %v", major, encoding, content, err)
			}
		}
	}
}

// TestEmptyCompressedEnvelopeOfResponses: as in TestEmptyCompressedEnvelope. An empty end of the stream says nothing, compressed or not.
func TestEmptyCompressedEnvelopeOfResponses(t *testing.T) {
	for _, x := range []struct {
		encoding, content string
		want              codes.Code
	}{
		{"gzip", emptyCompressed + "\x02\x00\x00\x00\x02{}", codes.OK},
		{"", emptyCompressed + "\x02\x00\x00\x00\x02{}", codes.Internal},
		{"gzip", emptyCompressed + "\x03\x00\x00\x00\x00", codes.Internal},
		{"gzip", emptyCompressed + "\x02\x00\x00\x00\x00", codes.Internal},
	} {
		addr := serveHTTP2(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			if x.encoding != "" {
				w.Header().Set("Connect-Content-Encoding", x.encoding)
			}
			_, _ = io.WriteString(w, x.content)
		}))
		c, err := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(rpc.Connect))).StreamingInputCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CloseAndRecv(); status.Code(err) != x.want {
			t.Errorf("encoding %q, %q: %v, want %v", x.encoding, x.content, err, x.want)
		}
	}
}
