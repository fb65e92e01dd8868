package rpc_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

// discarding is a ResponseWriter whose header is used again.
type discarding struct {
	header http.Header
	status int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarding) WriteHeader(status int)      { d.status = status }

// TestWebUnaryAllocations bounds the allocations of ServeHTTP for a unary call of 100 bytes with a deadline, with those of the messages and
// of the handler and without those of an HTTP server: the 6 that are measured. Under the race detector sync.Pool
// drops objects at random, so the limit is looser.
func TestWebUnaryAllocations(t *testing.T) {
	s := rpc.NewServer()
	pb.RegisterTestServiceServer(s, &testService{})
	plain, err := proto.Marshal(&pb.SimpleRequest{Payload: payload(100)})
	if err != nil {
		t.Fatal(err)
	}
	framed := append([]byte{0, 0, 0, 0, byte(len(plain))}, plain...)
	for _, p := range []struct {
		name, contentType, timeout, value string
		body                              []byte
		want                              float64
	}{
		{"gRPC", "application/grpc+proto", "Grpc-Timeout", "1M", framed, 6},
		{"Connect", "application/proto", "Connect-Timeout-Ms", "60000", plain, 6},
	} {
		t.Run(p.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/grpc.testing.TestService/UnaryCall", nil)
			r.ProtoMajor, r.ProtoMinor = 2, 0
			r.Header.Set("Content-Type", p.contentType)
			r.Header.Set(p.timeout, p.value)
			body := bytes.NewReader(p.body)
			r.Body = io.NopCloser(body)
			w := &discarding{header: http.Header{}}
			call := func() {
				body.Reset(p.body)
				clear(w.header)
				s.ServeHTTP(w, r)
			}
			call()
			if code := w.header.Get(http.TrailerPrefix + "Grpc-Status"); w.status != 0 || p.name == "gRPC" && code != "0" {
				t.Fatalf("the call failed: %d, %q", w.status, code)
			}
			if n := testing.AllocsPerRun(500, call); n > p.want*raceFactor {
				t.Errorf("%v allocations a call, want at most %v", n, p.want)
			}
		})
	}
}
