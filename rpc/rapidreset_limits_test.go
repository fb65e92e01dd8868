package rpc_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

// TestRapidResetAtDefaultLimits mounts rapid resets on a server with default limits, in fake time: of calls whose
// handlers run on, so that further calls are refused, and of calls whose handlers never start, since their requests are
// incomplete. The connection is read slowly, which is logged, and ends after 20 seconds, the handlers are bounded, and the
// calls on another connection succeed. With the race detector the limits are lower.
func TestRapidResetAtDefaultLimits(t *testing.T) {
	t.Parallel()
	for name, complete := range map[string][]byte{"handlers run on": prefixed(0, nil), "handlers never start": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running, most atomic.Int32
				release := make(chan struct{})
				svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					n := running.Add(1)
					defer running.Add(-1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					<-release
					return &pb.SimpleResponse{}, nil
				}}
				var lines logLines
				opts := []rpc.ServerOption{rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.Logger(slog.New(slog.NewTextHandler(&lines, nil)))}
				lasts, burst, streams := 20*time.Second, 10_000, 4096
				if raceFactor > 1 {
					lasts, streams = 2*time.Second, 100
					opts = append(opts, rpc.MaxResets(100), rpc.MaxConcurrentStreams(100))
				}
				s := rpc.NewServer(opts...)
				pb.RegisterTestServiceServer(s, svc)
				l := faultnet.Listen(t, faultnet.Memory)
				served := make(chan struct{})
				go func() { defer close(served); s.Serve(l) }()
				defer func() { close(release); s.Stop(); <-served }()
				healthy := pb.NewTestServiceClient(dialTarn(t, "passthrough:///x", rpc.WithContextDialer(
					func(ctx context.Context, addr string) (net.Conn, error) { return l.Dial(ctx, "tcp", addr) })))
				nc, err := l.Dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()

				begun := time.Now()
				go resetAtOnce(nc, complete)
				code, ended := http2.ErrCodeNo, make(chan struct{})
				go func() {
					defer close(ended)
					fr := http2.NewFramer(nil, nc)
					for f, err := fr.ReadFrame(); err == nil; f, err = fr.ReadFrame() {
						if g, ok := f.(*http2.GoAwayFrame); ok {
							code = g.ErrCode
						}
					}
				}()
				calls, over := 0, false
				for !over {
					if _, err := healthy.EmptyCall(context.Background(), &pb.Empty{}); err != nil {
						t.Fatal(err)
					}
					calls++
					resets, rate := float64(s.TransportStats().ResetsReceived), 5100.0
					if most := float64(2*streams+burst+1200) + rate*time.Since(begun).Seconds(); resets > most {
						t.Fatalf("%v resets were read in %v, more than %v", resets, time.Since(begun), most)
					}
					select {
					case <-ended:
						over = true
					case <-time.After(100 * time.Millisecond):
					}
				}
				if d := time.Since(begun); d < lasts || d > 2*lasts || code != http2.ErrCodeEnhanceYourCalm {
					t.Errorf("the connection ended after %v with %v", d, code)
				}
				if n := int(most.Load()); n > 2*streams { // as many of streams that have ended
					t.Errorf("%d handlers ran at once, %d are allowed", n, 2*streams)
				}
				if text := lines.String(); !strings.Contains(text, "level=WARN msg=\"h2: connection is read more slowly\"") {
					t.Errorf("the log is %q", text)
				}
				t.Logf("%d healthy calls, %d handlers at once", calls, most.Load())
			})
		})
	}
}

// resetAtOnce is a client that opens calls with the DATA given, if any, and resets them, until the connection ends.
func resetAtOnce(nc net.Conn, data []byte) {
	var out, block bytes.Buffer
	fr, enc := http2.NewFramer(&out, nil), hpack.NewEncoder(&block)
	encode := func() {
		block.Reset()
		for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "x"},
			{Name: ":path", Value: "/grpc.testing.TestService/UnaryCall"}, {Name: "content-type", Value: "application/grpc"}} {
			enc.WriteField(f)
		}
	}
	out.WriteString(http2.ClientPreface)
	fr.WriteSettings()
	fr.WriteSettingsAck()
	encode()
	for id := uint32(1); ; id += 2 {
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		if data != nil {
			fr.WriteData(id, true, data)
		}
		fr.WriteRSTStream(id, http2.ErrCodeCancel)
		if _, err := out.WriteTo(nc); err != nil {
			return
		}
		if id == 1 {
			encode() // from now on by indices alone
		}
	}
}
