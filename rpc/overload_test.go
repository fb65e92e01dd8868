package rpc_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// TestFloodOfCalls sends many complete requests at once. The reading goroutine slows down while handlers
// start, so that there are far fewer goroutines than the 4096 calls that a connection may have: those that
// start, 128, and those that wait for their answer to be sent.
func TestFloodOfCalls(t *testing.T) {
	var most atomic.Int32
	svc := &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		n := int32(runtime.NumGoroutine())
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return &pb.SimpleResponse{}, nil
	}}
	before := runtime.NumGoroutine()
	_, addr := startTarn(t, svc)
	p := rawClient(t, addr)
	go func() { // read the answers, so that they do not wait
		for {
			if _, err := p.fr.ReadFrame(); err != nil {
				return
			}
		}
	}()
	for range 20000 {
		id := p.open(false)
		if err := p.fr.WriteData(id, true, prefixed(0, nil)); err != nil {
			t.Fatal(err)
		}
	}
	id := p.open(false)
	p.fr.WriteData(id, true, prefixed(0, nil))
	if n := int(most.Load()) - before; n > 1200 {
		t.Errorf("%d goroutines for calls that end at once", n)
	}
}

// anyPings sets no limit for a client's PINGs.
var anyPings = rpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 1, PermitWithoutStream: true})

// dripper sends DATA as far as the server's windows allow, on many streams.
type dripper struct {
	*rawPeer
	mu     sync.Mutex
	conn   int            // the connection's window
	stream map[uint32]int // the streams' windows
	window int            // the initial window of a stream
	reset  map[uint32]bool
	pongs  chan struct{}
	ends   atomic.Int32 // streams that the server has ended without a reset
}

func newDripper(t *testing.T, addr string) *dripper {
	d := &dripper{rawPeer: rawClient(t, addr), conn: 65535, window: 65535, stream: map[uint32]int{}, reset: map[uint32]bool{},
		pongs: make(chan struct{}, 100)}
	settings := make(chan struct{})
	go func() {
		for first := true; ; {
			f, err := d.fr.ReadFrame()
			if err != nil {
				close(d.pongs)
				return
			}
			d.mu.Lock()
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
					for id := range d.stream {
						d.stream[id] += int(v) - d.window
					}
					d.window = int(v)
				}
				if first {
					first = false
					close(settings)
				}
			case *http2.WindowUpdateFrame:
				if f.StreamID == 0 {
					d.conn += int(f.Increment)
				} else {
					d.stream[f.StreamID] += int(f.Increment)
				}
			case *http2.RSTStreamFrame:
				d.reset[f.StreamID] = true
			case *http2.MetaHeadersFrame:
				if f.StreamEnded() {
					d.ends.Add(1)
				}
			case *http2.GoAwayFrame:
				t.Logf("GOAWAY: %v %s", f.ErrCode, f.DebugData())
			case *http2.PingFrame:
				if f.IsAck() {
					d.pongs <- struct{}{}
				}
			}
			d.mu.Unlock()
		}
	}()
	<-settings
	if err := d.fr.WriteSettingsAck(); err != nil {
		t.Fatal(err)
	}
	return d
}

// begin opens a stream for a request.
func (d *dripper) begin(kv ...string) uint32 {
	id := d.open(false, kv...)
	d.mu.Lock()
	d.stream[id] = d.window
	d.mu.Unlock()
	return id
}

// refused returns how many streams the server has reset.
func (d *dripper) refused() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.reset)
}

func (d *dripper) wasReset(id uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reset[id]
}

// sync waits until the server has processed the frames so far.
func (d *dripper) sync() {
	d.t.Helper()
	if err := d.fr.WritePing(false, [8]byte{}); err != nil {
		d.t.Fatal(err)
	}
	if _, ok := <-d.pongs; !ok {
		d.t.Fatal("the server has ended the connection")
	}
}

// send sends up to n bytes of msg on a stream, and returns how many the windows allowed.
func (d *dripper) send(id uint32, msg []byte, end bool) int {
	d.mu.Lock()
	n := min(len(msg), 16384, d.conn, d.stream[id])
	if d.reset[id] {
		n = 0
	}
	if n > 0 {
		d.conn -= n
		d.stream[id] -= n
	}
	d.mu.Unlock()
	if n > 0 {
		if err := d.fr.WriteData(id, end && n == len(msg), msg[:n]); err != nil {
			d.t.Fatal(err)
		}
	}
	return max(n, 0)
}

// TestOneByteHoldsLittle sends one byte on each of many streams, each in a separate read: a byte must not
// hold the buffer into which it was read.
func TestOneByteHoldsLittle(t *testing.T) {
	const streams = 1000
	for _, method := range []string{"UnaryCall", "FullDuplexCall"} {
		for _, data := range [][]byte{{0}, prefixed(0, nil)} {
			t.Run(fmt.Sprint(method, " ", len(data)), func(t *testing.T) {
				stop := make(chan struct{})
				pool := tarntest.NewPool(t)
				_, addr := startTarn(t, &testService{duplex: func(pb.TestService_FullDuplexCallServer) error {
					<-stop
					return nil
				}}, rpc.Pool(pool), anyPings)
				defer close(stop)
				d := newDripper(t, addr)
				for range streams {
					d.send(d.begin(":path", "/grpc.testing.TestService/"+method), data, false)
					d.sync()
				}
				if n := pool.Stats().InUse; n > streams*1024 {
					t.Errorf("%d bytes in use for %d bytes received", n, streams*len(data))
				}
			})
		}
	}
}

// TestOneByteHoldsLittleOnClients does the same for responses: to unary calls, to streams that are not read
// yet, and to streams that RecvMsg waits on.
func TestOneByteHoldsLittleOnClients(t *testing.T) {
	t.Parallel()
	const streams = 1000
	calls := map[string]func(ctx context.Context, c pb.TestServiceClient){
		"unary": func(ctx context.Context, c pb.TestServiceClient) { c.UnaryCall(ctx, &pb.SimpleRequest{}) },
		"stream": func(ctx context.Context, c pb.TestServiceClient) {
			if _, err := c.FullDuplexCall(ctx); err == nil {
				<-ctx.Done()
			}
		},
		"stream with RecvMsg": func(ctx context.Context, c pb.TestServiceClient) {
			if s, err := c.FullDuplexCall(ctx); err == nil {
				s.Recv()
			}
		},
	}
	for name, call := range calls {
		for _, data := range [][]byte{{0}, prefixed(0, make([]byte, 100))[:6]} {
			t.Run(fmt.Sprint(name, " ", len(data)), func(t *testing.T) {
				var ids []uint32
				all := make(chan struct{})
				addr := rawServer(t, func(p *rawPeer, id uint32) {
					if ids = append(ids, id); len(ids) == streams {
						defer close(all)
						for _, id := range ids {
							p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true,
								BlockFragment: p.block(":status", "200", "content-type", "application/grpc")})
							p.fr.WriteData(id, false, data)
							if !p.roundTrip() {
								t.Error("the client has ended the connection")
								return
							}
						}
					}
				})
				pool := tarntest.NewPool(t)
				c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithPool(pool)))
				ctx, cancel := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				for range streams {
					wg.Add(1)
					go func() {
						defer wg.Done()
						call(ctx, c)
					}()
				}
				within(t, "all responses", func() { <-all })
				if n := pool.Stats().InUse; n > streams*1024 {
					t.Errorf("%d bytes in use for %d bytes received", n, streams*len(data))
				}
				cancel()
				within(t, "the calls", wg.Wait)
			})
		}
	}
}

// TestGatheredRequests begins more large unary requests than a connection gathers and sends as much as the
// windows allow: the memory is bounded, whatever the number of streams, and when the requests continue each
// of them completes. Those for which RequestMemory has no space left are refused.
func TestGatheredRequests(t *testing.T) {
	streams := 30
	if os.Getenv("TARN_LONG") != "" {
		streams = 300 // more than the bound
	}
	t.Run("default", func(t *testing.T) {
		if refused := gatherRequests(t, streams, 4<<20-100, 192<<20); refused > 0 {
			t.Errorf("%d of %d requests were refused", refused, streams)
		}
	})
	t.Run("RequestMemory", func(t *testing.T) {
		if refused := gatherRequests(t, 60, 1<<20, 24<<20, rpc.RequestMemory(8<<20)); refused == 0 {
			t.Error("no request was refused")
		}
	})
}

// gatherRequests sends all but the last byte of the given number of requests of size bytes, checks that no
// more than bound bytes are in use, completes the requests and returns how many were refused.
func gatherRequests(t *testing.T, streams, size int, bound int64, opts ...rpc.ServerOption) (refused int) {
	t.Helper()
	pool := tarntest.NewPool(t)
	_, addr := startTarn(t, &testService{unary: func(_ context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if len(in.Payload.Body) < size-20 {
			return nil, status.Error(codes.DataLoss, "")
		}
		return &pb.SimpleResponse{}, nil
	}}, append(opts, rpc.Pool(pool), anyPings)...)
	body, err := proto.Marshal(&pb.SimpleRequest{Payload: payload(size - 10)})
	if err != nil {
		t.Fatal(err)
	}
	msg := prefixed(0, body)
	d := newDripper(t, addr)
	d.nc.SetDeadline(time.Now().Add(2 * time.Minute))
	var most int64 // in use
	sent := map[uint32]int{}
	for range streams {
		sent[d.begin()] = 0
	}
	// Each stream sends all but the last bytes as far as possible.
	round := func(upTo int) (progress int) {
		for id, at := range sent {
			n := d.send(id, msg[at:upTo], upTo == len(msg))
			sent[id] += n
			progress += n
		}
		d.sync()
		most = max(most, pool.Stats().InUse)
		return progress
	}
	for idle := 0; idle < 3; {
		if idle++; round(len(msg)-1) > 0 {
			idle = 0
		}
	}
	if most > bound {
		t.Errorf("%d MiB were held for incomplete requests", most>>20)
	}
	for done := 0; done < streams-d.refused(); {
		round(len(msg))
		done = 0
		for id, at := range sent {
			if at == len(msg) {
				done++
			} else if d.wasReset(id) {
				delete(sent, id)
			}
		}
	}
	for int(d.ends.Load()) < streams-d.refused() {
		d.sync()
	}
	t.Logf("at most %d MiB in use, with idle buffers %d MiB, %d of %d refused", most>>20, pool.Stats().Peak>>20, d.refused(), streams)
	return d.refused()
}

// TestManyLargeRequests does this with grpc-go's client: no call fails.
func TestManyLargeRequests(t *testing.T) {
	const calls, size = 60, 4<<20 - 100
	pool := tarntest.NewPool(t)
	_, addr := startTarn(t, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{}, nil
	}}, rpc.Pool(pool))
	c := pb.NewTestServiceClient(dialGRPC(t, addr))
	req := &pb.SimpleRequest{Payload: payload(size)}
	var wg sync.WaitGroup
	for range calls {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := c.UnaryCall(context.Background(), req); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	t.Logf("peak %d MiB", pool.Stats().Peak>>20)
}

// TestManyHandlersKeepNoWindow: short requests whose handlers run for long do not count as unread where more handlers may
// run than the bound of unread bytes has room for; no further request could arrive.
func TestManyHandlersKeepNoWindow(t *testing.T) {
	const calls = 20
	for _, kind := range []struct {
		name string
		call func(context.Context, pb.TestServiceClient) error
	}{
		{"unary", func(ctx context.Context, c pb.TestServiceClient) error {
			_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(4 << 10)})
			return err
		}},
		{"stream", func(ctx context.Context, c pb.TestServiceClient) error {
			s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{Payload: payload(1 << 10)})
			if err != nil {
				return err
			}
			if _, err = s.Recv(); err == io.EOF {
				return nil
			}
			return err
		}},
	} {
		for _, most := range []uint32{0, 1 << 20} {
			began, release := make(chan struct{}), make(chan struct{})
			s, addr := startTarn(t, &testService{
				unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					began <- struct{}{}
					<-release
					return &pb.SimpleResponse{}, nil
				},
				output: func(*pb.StreamingOutputCallRequest, pb.TestService_StreamingOutputCallServer) error {
					began <- struct{}{}
					<-release
					return nil
				},
			}, rpc.MaxConcurrentStreams(most))
			c := pb.NewTestServiceClient(dialTarn(t, addr))
			ended := make(chan error, calls)
			for range calls {
				go func() { ended <- kind.call(ctxFor(t), c) }()
				<-began
			}
			for _, conn := range s.Endpoint().Connections {
				if conn.Unread > calls*64 {
					t.Errorf("%s, MaxConcurrentStreams(%d): %d bytes of %d requests that have been read count as unread", kind.name, most, conn.Unread, calls)
				}
			}
			close(release)
			for range calls {
				if err := <-ended; err != nil {
					t.Errorf("%s: %v", kind.name, err)
				}
			}
		}
	}
}

// TestManyStreamsKeepNoWindow: what a client has received of a streaming call beyond the first 8,192 of its connection does
// not count as unread; together, such bytes could keep the connection's window from the server. Calls are counted until they end.
func TestManyStreamsKeepNoWindow(t *testing.T) {
	const unreadMost, kept, size = 64 << 20, 4<<10 - 1, 1 << 10
	if most := rpc.ThriftyStreams * kept; most > unreadMost/2 {
		t.Errorf("%d streams may keep %d bytes", rpc.ThriftyStreams, most)
	}
	_, addr := startTarn(t, &testService{output: func(in *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
		if err := s.Send(&pb.StreamingOutputCallResponse{Payload: payload(size)}); err != nil || len(in.ResponseParameters) > 0 {
			return err
		}
		<-s.Context().Done()
		return s.Context().Err()
	}})
	cc := dialTarn(t, addr)
	ctx, cancel := context.WithCancel(ctxFor(t))
	defer cancel()
	begin := func(in *pb.StreamingOutputCallRequest) pb.TestService_StreamingOutputCallClient {
		t.Helper()
		s, err := pb.NewTestServiceClient(cc).StreamingOutputCall(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	unread := func() int { return cc.Endpoint().Connections[0].Unread }
	streams := []pb.TestService_StreamingOutputCallClient{begin(&pb.StreamingOutputCallRequest{})}
	first := unread()
	if first < size {
		t.Errorf("one stream keeps %d bytes of window, its message had more than %d", first, size)
	}
	rpc.AddStreams(cc, rpc.ThriftyStreams-1)
	for range 20 {
		streams = append(streams, begin(&pb.StreamingOutputCallRequest{}))
	}
	if n := unread(); n > first {
		t.Errorf("%d bytes that have been received on streams beyond %d count as unread", n-first, rpc.ThriftyStreams)
	}
	ends := begin(&pb.StreamingOutputCallRequest{ResponseParameters: make([]*pb.ResponseParameters, 1)})
	if _, err := ends.Recv(); err != io.EOF {
		t.Error(err)
	}
	cancel()
	for _, s := range streams {
		if _, err := s.Recv(); status.Code(err) != codes.Canceled {
			t.Error(err)
		}
	}
	if n := rpc.AddStreams(cc, 0); n != rpc.ThriftyStreams-1 {
		t.Errorf("%d streaming calls are counted that have ended", n-(rpc.ThriftyStreams-1))
	}
}
