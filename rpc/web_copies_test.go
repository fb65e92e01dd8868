package rpc_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// taken is how many bytes of slabs have been taken from a pool.
func taken(p *tarn.Pool) (n uint64) {
	for _, c := range p.Stats().Classes {
		n += uint64(c.Size) * c.Gets
	}
	return n
}

// TestWebResponsesAreNotCopied: responses of unary calls over Connect and gRPC-Web are encoded into the pool's memory once, as those of
// gRPC, and without their bytes fields of 128 KiB or more.
func TestWebResponsesAreNotCopied(t *testing.T) {
	for _, c := range []struct {
		name, contentType string
		framed            bool
		major             int
	}{
		{"gRPC", "application/grpc", true, 2},
		{"gRPC-Web", "application/grpc-web+proto", true, 2},
		{"Connect", "application/proto", false, 2},
		{"Connect over HTTP/1.1", "application/proto", false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var request []byte // without fields
			if c.framed {
				request = prefixed(0, nil)
			}
			for size, most := range map[int]float64{50_000: 1.8, 500_000: 0.2} {
				pool := tarntest.NewPool(t)
				s := rpc.NewServer(rpc.Pool(pool))
				pb.RegisterTestServiceServer(s, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					return &pb.SimpleResponse{Payload: payload(size)}, nil
				}})
				url := "http://" + serve(t, s) + "/grpc.testing.TestService/UnaryCall"
				client := clients(t)[c.major]
				const calls = 20
				for range calls {
					r, err := http.NewRequestWithContext(ctxFor(t), "POST", url, bytes.NewReader(request))
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("Content-Type", c.contentType)
					r.Header.Set("Te", "trailers")
					r.Header.Set("Accept-Encoding", "identity")
					res, err := client.Do(r)
					if err != nil {
						t.Fatal(err)
					}
					n, err := io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if err != nil || int(n) < size || res.ProtoMajor != c.major {
						t.Fatalf("%d bytes, %s, %v", n, res.Proto, err)
					}
				}
				if share := float64(taken(pool)) / float64(calls*size); share > most {
					t.Errorf("a response of %d bytes takes %.2f of its length", size, share)
				}
			}
		})
	}
}
