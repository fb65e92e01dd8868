package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// soakFor is how long a soak injects failures, a third of it each with one, two and eight processors; soakLong, with
// TARN_LONG=1.
const (
	soakFor  = 2 * time.Second
	soakLong = 30 * time.Second
)

// killer is a dialer that breaks the connections it made.
type killer struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (k *killer) dial(ctx context.Context, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err == nil {
		k.mu.Lock()
		k.conns = append(k.conns, nc)
		k.mu.Unlock()
	}
	return nc, err
}

func (k *killer) kill() {
	k.mu.Lock()
	conns := k.conns
	k.conns = nil
	k.mu.Unlock()
	for _, nc := range conns {
		if t, ok := nc.(*net.TCPConn); ok && rand.IntN(2) == 0 {
			t.SetLinger(0)
		}
		nc.Close()
	}
}

// TestSoak makes calls of every kind while contexts end, deadlines pass, connections break and servers stop
// at random. Every call ends, every buffer is freed (the pools check that), and no goroutine is left.
func TestSoak(t *testing.T) {
	soakKind(t, oneCall)
}

// TestSoakWithoutDeadlines is TestSoak with calls without deadline or cancellation: each must end because its
// server answers or its connection breaks.
func TestSoakWithoutDeadlines(t *testing.T) {
	soakKind(t, oneEndlessCall)
}

// caller makes one call.
type caller func(ctx context.Context, t *testing.T, c pb.TestServiceClient) codes.Code

func soakKind(t *testing.T, call caller) {
	long := soakFor
	switch {
	case os.Getenv("TARN_LONG") != "":
		long = soakLong
	case testing.Short():
		long = time.Second
	}
	before := runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		for _, procs := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("procs=%d", procs), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				soak(t, long/3, call)
			})
		}
	})
	waitGoroutines(t, before)
}

// waitGoroutines fails when there are still more goroutines than before, some time after everything has been
// stopped.
func waitGoroutines(t *testing.T, before int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines are left, %d were there before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func soak(t *testing.T, long time.Duration, call caller) {
	pool := tarntest.NewPool(t)
	lis := listen(t)
	addr := lis.Addr().String()
	lis.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Nothing breaks before the first call has succeeded: on a busy machine no connection might last long enough for one.
	begun := make(chan struct{})
	succeeded := sync.OnceFunc(func() { close(begun) })
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		serveByTurns(ctx, t, addr, rpc.Pool(pool), begun)
	}()
	k := &killer{}
	cc, err := rpc.NewClient(addr, rpc.WithPool(pool), rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithContextDialer(k.dial), fastBackoff())
	if err != nil {
		t.Fatal(err)
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		<-begun
		for sleep(ctx, time.Duration(rand.IntN(200))*time.Millisecond) {
			k.kill()
		}
	}()
	var outcomes [17]atomic.Int64
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for ctx.Err() == nil {
				code := call(ctx, t, pb.NewTestServiceClient(cc))
				if code == codes.OK {
					succeeded()
				}
				if int(code) < len(outcomes) {
					outcomes[code].Add(1)
				}
				if code == codes.Unavailable {
					sleep(ctx, 2*time.Millisecond)
				}
			}
		}()
	}
	within(t, "the first call", func() { <-begun })
	sleep(ctx, long)
	cancel()
	within(t, "calls", wg.Wait)
	if err := cc.Close(); err != nil {
		t.Error(err)
	}
	var sum strings.Builder
	for c := range outcomes {
		if n := outcomes[c].Load(); n > 0 {
			fmt.Fprintf(&sum, " %v=%d", codes.Code(c), n)
		}
	}
	t.Log("outcomes:" + sum.String())
}

func sleep(ctx context.Context, d time.Duration) bool {
	tm := time.NewTimer(d)
	defer tm.Stop()
	select {
	case <-tm.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// serveByTurns runs one server after another on addr: some stop gracefully, some at once, and all but the first, which serves until begun
// is closed, limit the age of their connections.
func serveByTurns(ctx context.Context, t *testing.T, addr string, pool rpc.ServerOption, begun <-chan struct{}) {
	var age keepalive.ServerParameters
	for ctx.Err() == nil {
		lis, err := net.Listen("tcp", addr)
		if err != nil {
			if !sleep(ctx, time.Millisecond) {
				return
			}
			continue
		}
		s := rpc.NewServer(pool, rpc.WaitForHandlers(true), rpc.KeepaliveParams(age))
		pb.RegisterTestServiceServer(s, &testService{})
		done := make(chan error, 1)
		go func() { done <- s.Serve(lis) }()
		<-begun
		age = keepalive.ServerParameters{MaxConnectionAge: 100 * time.Millisecond, MaxConnectionAgeGrace: 50 * time.Millisecond}
		sleep(ctx, time.Duration(50+rand.IntN(400))*time.Millisecond)
		if rand.IntN(2) == 0 {
			stop := time.AfterFunc(200*time.Millisecond, s.Stop)
			s.GracefulStop()
			stop.Stop()
		}
		s.Stop()
		if err := <-done; err != nil && !errors.Is(err, rpc.ErrServerStopped) { // stopped before it began
			t.Error(err)
		}
	}
}

// oneCall makes a call of a random kind, size and timeout.
func oneCall(parent context.Context, t *testing.T, c pb.TestServiceClient) codes.Code {
	ctx, cancel := context.WithTimeout(parent, 5*time.Second)
	defer cancel()
	switch rand.IntN(4) {
	case 0:
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, time.Duration(rand.IntN(3000))*time.Microsecond)
		defer stop()
	case 1:
		tm := time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel)
		defer tm.Stop()
	}
	var opts []grpc.CallOption
	if rand.IntN(3) == 0 {
		opts = append(opts, grpc.WaitForReady(true))
	}
	return anyCall(ctx, t, c, opts)
}

// oneEndlessCall makes a call without a deadline that is never cancelled.
func oneEndlessCall(_ context.Context, t *testing.T, c pb.TestServiceClient) codes.Code {
	return anyCall(context.Background(), t, c, nil)
}

// anyCall makes a call of a random kind and size.
func anyCall(ctx context.Context, t *testing.T, c pb.TestServiceClient, opts []grpc.CallOption) codes.Code {
	if rand.IntN(5) == 0 {
		opts = append(opts, grpc.UseCompressor("gzip"))
	}
	n := []int{0, 10, 1000, 30000, 300000}[rand.IntN(5)]
	switch rand.IntN(4) {
	case 0:
		return soakDuplex(t, ctx, c, n, opts)
	case 1:
		s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{
			ResponseParameters: []*pb.ResponseParameters{{Size: int32(n)}, {Size: 10}, {Size: int32(n)}}}, opts...)
		for err == nil {
			_, err = s.Recv()
		}
		return outcome(t, err)
	case 2:
		s, err := c.StreamingInputCall(ctx, opts...)
		if err != nil {
			return outcome(t, err)
		}
		for range 3 {
			if s.Send(&pb.StreamingInputCallRequest{Payload: payload(n)}) != nil {
				break
			}
		}
		_, err = s.CloseAndRecv()
		return outcome(t, err)
	}
	out, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(n)}, opts...)
	if err == nil && !bytes.Equal(out.Payload.Body, body(n)) {
		t.Error("a unary call returned other bytes")
	}
	return outcome(t, err)
}

// soakDuplex sends and receives concurrently, and sometimes returns early.
func soakDuplex(t *testing.T, ctx context.Context, c pb.TestServiceClient, n int, opts []grpc.CallOption) codes.Code {
	var cancel context.CancelFunc = func() {}
	early := ctx.Done() != nil && rand.IntN(3) == 0
	if early {
		ctx, cancel = context.WithCancel(ctx)
	}
	s, err := c.FullDuplexCall(ctx, opts...)
	if err != nil {
		cancel()
		return outcome(t, err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Add(1)
	go func() {
		defer wg.Done()
		for range 5 {
			if s.Send(&pb.StreamingOutputCallRequest{Payload: payload(n)}) != nil {
				return
			}
		}
		s.CloseSend()
	}()
	for i := 0; ; i++ {
		out, err := s.Recv()
		if err != nil {
			return outcome(t, err)
		}
		if !bytes.Equal(out.Payload.Body, body(n)) {
			t.Error("a stream returned other bytes")
		}
		if early && i == 1 {
			return codes.OK
		}
	}
}

func outcome(t *testing.T, err error) codes.Code {
	if err == io.EOF {
		return codes.OK
	}
	switch c := status.Code(err); c {
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unimplemented:
		t.Errorf("a call ended with an error that no injected failure explains: %v", err)
		return c
	default:
		return c
	}
}
