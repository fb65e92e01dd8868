package rpc_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// TestOptionsOfCallsNotSent: what the options of header, trailer and peer point to stays as it is when a connection was there and the
// credentials of the call failed, as with grpc-go: no request was begun.
func TestOptionsOfCallsNotSent(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	stock, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	for name, cc := range map[string]grpc.ClientConnInterface{
		"grpc": stock, "tarn": dialTarn(t, addr), "Connect": dialTarn(t, addr, rpc.WithProtocol(rpc.Connect)),
		"gRPC-Web": dialTarn(t, addr, rpc.WithProtocol(rpc.GRPCWeb)),
	} {
		c := pb.NewTestServiceClient(cc)
		if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
		header, trailer, at := metadata.Pairs("mine", "1"), metadata.Pairs("mine", "1"), peer.Peer{Addr: &net.TCPAddr{Port: 1}}
		before := at.Addr
		_, err := c.EmptyCall(ctxFor(t), &pb.Empty{}, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&at),
			grpc.PerRPCCredentials(token{err: status.Error(codes.Unavailable, "later")}))
		wantCode(t, err, codes.Unavailable)
		if len(header["mine"]) != 1 || len(trailer["mine"]) != 1 || at.Addr != before {
			t.Errorf("%s: header %v, trailer %v, peer %v", name, header, trailer, at.Addr)
		}
	}
}

// TestOptionsOfCallsNotConnected: the same when the call is cancelled while its client connects.
func TestOptionsOfCallsNotConnected(t *testing.T) {
	_, roots := testcert.New(t)
	const target = "passthrough:///server.test:1"
	dialling := make(chan struct{}, 10)
	dialer := func(ctx context.Context, _ string) (net.Conn, error) {
		dialling <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	stock, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dialer))
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	overTLS := rpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots}))
	dial := func(opts ...rpc.DialOption) *rpc.ClientConn {
		return dialTarn(t, target, append(opts, rpc.WithContextDialer(dialer))...)
	}
	for name, cc := range map[string]grpc.ClientConnInterface{
		"grpc": stock, "tarn": dial(), "Connect": dial(rpc.WithProtocol(rpc.Connect)), "gRPC-Web": dial(rpc.WithProtocol(rpc.GRPCWeb)),
		"Connect over TLS": dial(rpc.WithProtocol(rpc.Connect), overTLS),
	} {
		ctx, cancel := context.WithCancel(ctxFor(t))
		header, trailer, at := metadata.Pairs("mine", "1"), metadata.Pairs("mine", "1"), peer.Peer{Addr: &net.TCPAddr{Port: 1}}
		before := at.Addr
		ended := make(chan error, 1)
		go func() {
			_, err := pb.NewTestServiceClient(cc).EmptyCall(ctx, &pb.Empty{}, grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&at))
			ended <- err
		}()
		<-dialling
		cancel()
		wantCode(t, <-ended, codes.Canceled)
		if len(header["mine"]) != 1 || len(trailer["mine"]) != 1 || at.Addr != before {
			t.Errorf("%s: header %v, trailer %v, peer %v", name, header, trailer, at.Addr)
		}
	}
}

// TestPeerOfUnfinishedRequest: the peer is reported, and header and trailer are emptied, when a call was cancelled after its HEADERS and
// before all of its message had been sent, as with grpc-go.
func TestPeerOfUnfinishedRequest(t *testing.T) {
	var cancel atomic.Pointer[context.CancelFunc]
	addr := rawServerOf(t, func(*rawPeer, *http2.MetaHeadersFrame) { (*cancel.Load())() })
	stock, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	for name, cc := range map[string]grpc.ClientConnInterface{"grpc": stock, "tarn": dialTarn(t, addr)} {
		ctx, stop := context.WithCancel(ctxFor(t))
		cancel.Store(&stop)
		header, trailer, at := metadata.Pairs("mine", "1"), metadata.Pairs("mine", "1"), peer.Peer{}
		_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 1<<20)}},
			grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&at))
		wantCode(t, err, codes.Canceled)
		if len(header["mine"]) != 0 || len(trailer["mine"]) != 0 || at.Addr == nil {
			t.Errorf("%s: header %v, trailer %v, peer %v", name, header, trailer, at.Addr)
		}
	}
}

// jsonV1 and jsonV2 are codecs of both kinds.
type jsonV1 struct{ name string }

func (jsonV1) Marshal(v any) ([]byte, error)      { return json.Marshal(v) }
func (jsonV1) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
func (c jsonV1) Name() string                     { return c.name }

type jsonV2 struct{ name string }

func (jsonV2) Marshal(v any) (mem.BufferSlice, error) {
	b, err := json.Marshal(v)
	half := len(b) / 2
	return mem.BufferSlice{mem.SliceBuffer(b[:half]), mem.SliceBuffer(b[half:])}, err
}
func (jsonV2) Unmarshal(data mem.BufferSlice, v any) error {
	return json.Unmarshal(data.Materialize(), v)
}
func (c jsonV2) Name() string { return c.name }

func TestCodecs(t *testing.T) {
	encoding.RegisterCodec(jsonV1{"tarn-json1"})
	encoding.RegisterCodecV2(jsonV2{"tarn-json2"})
	eachPairing(t, &testService{}, func(t *testing.T, c pb.TestServiceClient) {
		for _, opt := range []grpc.CallOption{grpc.CallContentSubtype("TARN-json1"), grpc.CallContentSubtype("tarn-json2"),
			grpc.ForceCodec(jsonV1{"tarn-json1"}), grpc.ForceCodecV2(jsonV2{"tarn-json2"})} {
			for _, n := range []int{10, 3000, 100000} {
				out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(n)}, opt)
				if err != nil || len(out.Payload.Body) != n {
					t.Fatalf("%T, %d bytes: %v", opt, n, err)
				}
			}
		}
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.CallContentSubtype("nobody"))
		wantCode(t, err, codes.Internal)
	})
}

func TestOnFinishAndUnknownOptions(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	var ends []error
	opt := grpc.OnFinish(func(err error) { ends = append(ends, err) })
	c.EmptyCall(ctxFor(t), &pb.Empty{}, opt)
	c.UnimplementedCall(ctxFor(t), &pb.Empty{}, opt)
	s, err := c.FullDuplexCall(ctxFor(t), opt)
	if err != nil {
		t.Fatal(err)
	}
	s.CloseSend()
	if _, err := s.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	if len(ends) != 3 || ends[0] != nil || status.Code(ends[1]) != codes.Unimplemented || ends[2] != nil {
		t.Fatal(ends)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.FullDuplexCall(over, opt); status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
	c.EmptyCall(over, &pb.Empty{}, opt)
	if len(ends) != 5 || status.Code(ends[3]) != codes.Canceled || status.Code(ends[4]) != codes.Canceled {
		t.Fatal("calls of a cancelled context:", ends[3:])
	}
	// A pointer to grpc-go's type is not what its constructors return.
	_, err = c.EmptyCall(ctxFor(t), &pb.Empty{}, &grpc.MaxRecvMsgSizeCallOption{MaxRecvMsgSize: 1})
	wantCode(t, err, codes.Unimplemented)
	// Data for interceptors is ignored here.
	type custom struct{ grpc.EmptyCallOption }
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}, custom{}, grpc.EmptyCallOption{}, grpc.StaticMethod(), grpc.MaxRetryRPCBufferSize(1)); err != nil {
		t.Fatal(err)
	}
}

func TestSetSendCompressor(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			if err := rpc.SetSendCompressor(ctx, "nobody"); err == nil {
				return nil, errors.New("an unknown compressor was accepted")
			}
			return &pb.SimpleResponse{Payload: in.Payload}, rpc.SetSendCompressor(ctx, "gzip")
		}}
		_, addr := startTarn(t, svc)
		for _, cc := range []grpc.ClientConnInterface{dialTarn(t, addr), dialGRPC(t, addr)} {
			out, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(10000)})
			if err != nil || len(out.Payload.Body) != 10000 {
				t.Fatal(err)
			}
		}
		if err := rpc.SetSendCompressor(context.Background(), "gzip"); err == nil {
			t.Fatal("outside a handler")
		}
	})
}

// events is a stats handler that records its calls.
type events struct {
	mu   sync.Mutex
	seen []string
	done chan struct{}
}

type tagKey struct{}

func (e *events) note(format string, args ...any) {
	e.mu.Lock()
	e.seen = append(e.seen, fmt.Sprintf(format, args...))
	e.mu.Unlock()
}
func (e *events) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, tagKey{}, i.FullMethodName)
}
func (e *events) TagConn(ctx context.Context, i *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, tagKey{}, "conn")
}
func (e *events) HandleConn(context.Context, stats.ConnStats) {}
func (e *events) HandleRPC(ctx context.Context, s stats.RPCStats) {
	method, _ := ctx.Value(tagKey{}).(string)
	switch s := s.(type) {
	case *stats.InPayload:
		e.note("%s InPayload %d %v", method, s.Length, s.WireLength == s.CompressedLength+5)
	case *stats.OutPayload:
		e.note("%s OutPayload %d %v", method, s.Length, s.WireLength == s.CompressedLength+5)
	case *stats.End:
		e.note("%s End %v", method, status.Code(s.Error))
		e.done <- struct{}{}
	default:
		e.note("%s %T", method, s)
	}
}

// TestStatsParity makes the same calls with grpc-go and with Tarn on both sides, and compares the calls of
// stats handlers.
func TestStatsParity(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		run := func(dial func(e *events, addr string) grpc.ClientConnInterface, start func(e *events) string) (cl, sv []string) {
			ce, se := &events{done: make(chan struct{}, 10)}, &events{done: make(chan struct{}, 10)}
			c := pb.NewTestServiceClient(dial(ce, start(se)))
			c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: payload(100)}, grpc.WaitForReady(true))
			<-ce.done
			<-se.done
			c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 5}})
			<-ce.done
			<-se.done
			s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 3}}})
			for err == nil {
				_, err = s.Recv()
			}
			<-ce.done
			<-se.done
			return kinds(ce.seen), kinds(se.seen)
		}
		gc, gs := run(func(e *events, addr string) grpc.ClientConnInterface {
			return dialGRPC(t, addr, grpc.WithStatsHandler(e))
		}, func(e *events) string {
			_, addr := startGRPC(t, &testService{}, grpc.StatsHandler(e))
			return addr
		})
		tc, ts := run(func(e *events, addr string) grpc.ClientConnInterface {
			return dialTarn(t, addr, rpc.WithStatsHandler(e))
		}, func(e *events) string {
			_, addr := startTarn(t, &testService{}, rpc.StatsHandler(e))
			return addr
		})
		if len(gc) < 10 {
			t.Fatalf("grpc-go itself reported only %q", gc)
		}
		if !slices.Equal(gc, tc) {
			t.Errorf("client:\ngrpc %q\ntarn %q", gc, tc)
		}
		if !slices.Equal(gs, ts) {
			t.Errorf("server:\ngrpc %q\ntarn %q", gs, ts)
		}
	})
}

// kinds sorts the events, whose order across goroutines differs, and removes those that only some versions
// report.
func kinds(seen []string) []string {
	out := slices.DeleteFunc(slices.Clone(seen), delayedPick)
	slices.Sort(out)
	return out
}

func TestRawMessages(t *testing.T) {
	pool := tarntest.NewPool(t)
	s := rpc.NewServer(rpc.Pool(pool), rpc.WaitForHandlers(true), rpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		for {
			var c tarn.Chain
			if err := s.RecvMsg(&c); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.SendMsg(&c); err != nil {
				return err
			}
		}
	}))
	cc := dialTarn(t, serve(t, s), rpc.WithPool(pool))
	st, err := cc.NewStream(ctxFor(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/any/thing", grpc.ForceCodecV2(rpc.RawCodec{Subtype: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range sizes() {
		b := pool.Copy(body(n))
		if err := st.SendMsg(&b); err != nil {
			t.Fatal(err)
		}
		if !b.IsZero() {
			t.Fatal("SendMsg left the caller its buffer")
		}
		var got tarn.Buffer
		if err := st.RecvMsg(&got); err != nil {
			t.Fatal(err)
		}
		if string(got.Bytes()) != string(body(n)) {
			t.Fatalf("%d: other bytes", n)
		}
		got.Free()
	}
	if err := st.SendMsg(&pb.Empty{}); err == nil {
		t.Fatal("a raw stream took a protobuf message")
	}
}

// A client connects and sends nothing.
func TestConnectionTimeout(t *testing.T) {
	_, addr := startTarn(t, &testService{}, rpc.ConnectionTimeout(30*time.Millisecond))
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, nc); errors.Is(err, context.DeadlineExceeded) || err != nil && errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}
