package rpc_test

import (
	"bufio"
	"context"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"golang.org/x/net/http2"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// TestRapidReset is CVE-2023-44487: a client opens calls and resets them at once. However many it opens, no
// more handlers run than the server allows concurrently, because a call counts until its handler has
// returned; and the server ends the connection.
func TestRapidReset(t *testing.T) { faultnet.EachSocket(t, rapidReset) }

func rapidReset(t faultnet.OnKind) {
	const limit = 10
	var running, most atomic.Int32
	release := make(chan struct{})
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release // a handler that ignores its context
		return &pb.SimpleResponse{}, nil
	}}
	resets := uint32(10)
	if t.Kind != faultnet.TCP {
		resets = 1 // a shorter form
	}
	_, addr := startTarn(t, svc, rpc.MaxConcurrentStreams(limit), rpc.MaxResets(resets))
	defer close(release)
	p := rawClient(t, addr)
	ended := make(chan http2.ErrCode, 1)
	go func() {
		for {
			f, err := p.fr.ReadFrame()
			if err != nil {
				ended <- http2.ErrCodeNo
				return
			}
			if g, ok := f.(*http2.GoAwayFrame); ok {
				ended <- g.ErrCode
				return
			}
		}
	}()
	fields := p.block(":method", "POST", ":scheme", "http", ":path", "/grpc.testing.TestService/UnaryCall",
		":authority", "x", "content-type", "application/grpc")
	fields = append([]byte(nil), fields...)
	repeated := p.block(":method", "POST", ":scheme", "http", ":path", "/grpc.testing.TestService/UnaryCall",
		":authority", "x", "content-type", "application/grpc")
	out := bufio.NewWriter(p.nc)
	fr := http2.NewFramer(out, nil)
	for id := uint32(1); ; id += 2 {
		err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: fields, EndHeaders: true})
		if err == nil {
			err = fr.WriteData(id, true, prefixed(0, nil))
		}
		if err == nil {
			err = fr.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		if err != nil {
			break // the server has closed the connection
		}
		fields = repeated
	}
	if code := <-ended; code != http2.ErrCodeEnhanceYourCalm && code != http2.ErrCodeNo {
		t.Errorf("the connection ended with %v", code)
	}
	if n := most.Load(); n > 2*limit { // as many of streams that have ended
		t.Errorf("%d handlers ran at once, %d are allowed", n, 2*limit)
	}
}
