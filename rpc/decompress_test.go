package rpc_test

import (
	"context"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// inflating is a compressor of which every message decompresses to zeroes without end. Its readers stop after stallAt bytes until resume is closed.
type inflating struct {
	resume  chan struct{}
	mu      sync.Mutex
	readers int // begun
}

const stallAt = 1 << 20

func (*inflating) Name() string                                 { return "inflating" }
func (*inflating) Compress(w io.Writer) (io.WriteCloser, error) { return verbatimWriter{w}, nil }
func (c *inflating) Decompress(r io.Reader) (io.Reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers++
	return &inflatingReader{c: c}, nil
}

func (c *inflating) begun() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readers
}

type verbatimWriter struct{ io.Writer }

func (verbatimWriter) Close() error { return nil }

type inflatingReader struct {
	c *inflating
	n int
}

func (r *inflatingReader) Read(p []byte) (int, error) {
	if r.n >= stallAt {
		<-r.c.resume
	}
	r.n += len(p)
	return len(p), nil
}

// TestDecompressionsAtATime: a server decompresses as many messages at a time as there are processors, and holds output of no others. A call that
// waits for that ends with its context, and messages without compression do not wait.
func TestDecompressionsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &inflating{resume: make(chan struct{})}
		encoding.RegisterCompressor(c)
		pool := tarntest.NewPool(t)
		s := rpc.NewServer(rpc.Pool(pool), rpc.WaitForHandlers(true))
		pb.RegisterTestServiceServer(s, &testService{})
		client := pb.NewTestServiceClient(dialPiped(t, s))
		want := max(2, runtime.GOMAXPROCS(0))
		call := func(timeout time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := client.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(100)}, grpc.UseCompressor(c.Name()))
			return err
		}
		var wg sync.WaitGroup
		for range 4 * want {
			wg.Go(func() {
				if err := call(time.Hour); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("%v, want RESOURCE_EXHAUSTED", err)
				}
			})
		}
		synctest.Wait()
		if got := c.begun(); got != want {
			t.Errorf("%d messages are being decompressed, want %d", got, want)
		}
		if got, most := pool.Stats().InUse, int64(want*3*stallAt+64<<10); got > most {
			t.Errorf("%d bytes of buffers in use, want at most %d", got, most)
		}
		if err := call(time.Second); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v, want DEADLINE_EXCEEDED", err)
		}
		if _, err := client.UnaryCall(t.Context(), &pb.SimpleRequest{Payload: payload(100)}); err != nil {
			t.Errorf("a call without compression: %v", err)
		}
		close(c.resume)
		wg.Wait()
		if got := c.begun(); got != 4*want {
			t.Errorf("%d messages were decompressed, want %d", got, 4*want)
		}
	})
}
