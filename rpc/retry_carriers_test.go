package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// triedCall is one attempt at the server.
type triedCall struct {
	n    int // attempts before it
	ctx  context.Context
	send func() error // sends a message; nil where the method has one response
}

// triedService calls a function for each attempt. Methods with many requests first receive as many as say says.
type triedService struct {
	testService
	mu       sync.Mutex
	attempts int
	got      int // messages of the last attempt
	reads    int // how often it receives before the script runs
	script   func(triedCall) error
}

const triedMessages = 3

func (s *triedService) begin(ctx context.Context, recv func() error, send func() error) error {
	s.mu.Lock()
	n, script, reads := s.attempts, s.script, s.reads
	s.attempts, s.got = s.attempts+1, 0
	s.mu.Unlock()
	ended := recv == nil
	receive := func(until int) error {
		for range until {
			err := recv()
			s.mu.Lock()
			got := s.got
			if err == nil {
				s.got++
			}
			s.mu.Unlock()
			if ended = err == io.EOF && got == triedMessages; ended {
				return nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if !ended {
		if err := receive(reads); err != nil {
			return err
		}
	}
	if err := script(triedCall{n, ctx, send}); err != nil {
		return err
	}
	if !ended {
		if err := receive(triedMessages + 1); err != nil || !ended {
			return status.Errorf(codes.Internal, "the requests end with %v", err)
		}
	}
	return nil
}

func newTriedService() *triedService {
	s := &triedService{}
	s.unary = func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{Payload: in.Payload}, s.begin(ctx, nil, nil)
	}
	s.output = func(_ *pb.StreamingOutputCallRequest, o pb.TestService_StreamingOutputCallServer) error {
		send := func() error { return o.Send(&pb.StreamingOutputCallResponse{}) }
		if err := s.begin(o.Context(), nil, send); err != nil {
			return err
		}
		return send()
	}
	s.duplex = func(o pb.TestService_FullDuplexCallServer) error {
		send := func() error { return o.Send(&pb.StreamingOutputCallResponse{}) }
		if err := s.begin(o.Context(), func() error { _, err := o.Recv(); return err }, send); err != nil {
			return err
		}
		return send()
	}
	return s
}

func (s *triedService) StreamingInputCall(o pb.TestService_StreamingInputCallServer) error {
	if err := s.begin(o.Context(), func() error { _, err := o.Recv(); return err }, nil); err != nil {
		return err
	}
	return o.SendAndClose(&pb.StreamingInputCallResponse{})
}

// triedKind makes a call of one kind.
type triedKind struct {
	name string
	sent bool // many requests
	back bool // many responses
	do   func(ctx context.Context, c pb.TestServiceClient, opts ...grpc.CallOption) error
}

var triedKinds = []triedKind{
	{"unary", false, false, func(ctx context.Context, c pb.TestServiceClient, opts ...grpc.CallOption) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(1000)}, opts...)
		return err
	}},
	{"server stream", false, true, func(ctx context.Context, c pb.TestServiceClient, opts ...grpc.CallOption) error {
		s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{Payload: payload(1000)}, opts...)
		if err != nil {
			return err
		}
		return received(s.Recv)
	}},
	{"client stream", true, false, func(ctx context.Context, c pb.TestServiceClient, opts ...grpc.CallOption) error {
		s, err := c.StreamingInputCall(ctx, opts...)
		if err != nil {
			return err
		}
		for range triedMessages {
			if err := s.Send(&pb.StreamingInputCallRequest{Payload: payload(1000)}); err != nil {
				break // RecvMsg says why
			}
		}
		_ = s.CloseSend() // grpc-go's returns io.EOF where another attempt was not permitted
		return s.RecvMsg(new(pb.StreamingInputCallResponse))
	}},
	{"bidirectional", true, true, func(ctx context.Context, c pb.TestServiceClient, opts ...grpc.CallOption) error {
		s, err := c.FullDuplexCall(ctx, opts...)
		if err != nil {
			return err
		}
		for range triedMessages {
			if err := s.Send(&pb.StreamingOutputCallRequest{Payload: payload(1000)}); err != nil {
				break
			}
		}
		_ = s.CloseSend()
		return received(s.Recv)
	}},
}

// received receives until the stream ends; nil if it has succeeded after a message.
func received(recv func() (*pb.StreamingOutputCallResponse, error)) error {
	for n := 0; ; n++ {
		_, err := recv()
		switch {
		case err == io.EOF && n > 0:
			return nil
		case err == io.EOF:
			return errors.New("no message")
		case err != nil:
			return err
		}
	}
}

// triedClient makes clients of a service, for the table of retries.
type triedClient struct {
	name  string
	major int // version of HTTP
	start func(t *testing.T, svc pb.TestServiceServer, config string) grpc.ClientConnInterface
}

func triedClients() []triedClient {
	all := []triedClient{
		{"grpc-go", 2, func(t *testing.T, svc pb.TestServiceServer, config string) grpc.ClientConnInterface {
			_, addr := startGRPC(t, svc)
			return dialGRPC(t, addr, grpc.WithDefaultServiceConfig(config))
		}},
		{"gRPC", 2, func(t *testing.T, svc pb.TestServiceServer, config string) grpc.ClientConnInterface {
			_, addr := startTarn(t, svc)
			return dialTarn(t, addr, rpc.WithDefaultServiceConfig(config))
		}},
	}
	for _, p := range []rpc.Protocol{rpc.GRPCWeb, rpc.Connect} {
		for _, by := range carriers {
			if strings.HasPrefix(by.name, "TLS") {
				continue
			}
			all = append(all, triedClient{p.String() + " " + by.name, by.major, func(t *testing.T, svc pb.TestServiceServer, config string) grpc.ClientConnInterface {
				return by.start(t, svc, rpc.WithProtocol(p), rpc.WithDefaultServiceConfig(config))
			}})
		}
	}
	return all
}

func unavailable() error { return status.Error(codes.Unavailable, "scripted") }

func failing(ctx context.Context, pushback ...string) error {
	if len(pushback) > 0 {
		if err := grpc.SetTrailer(ctx, metadata.MD{"grpc-retry-pushback-ms": pushback}); err != nil {
			return err
		}
	}
	return unavailable()
}

// retryScenes are what an attempt does, and what becomes of the call.
var retryScenes = []struct {
	name     string
	throttle string // of the service config
	opts     []grpc.CallOption
	many     bool // for methods with many responses only
	script   func(triedCall) error
	code     codes.Code
	attempts int
	differs  string // the kind of call that rpc makes as if nothing were limited; see docs/reference/rpc.md
}{
	{name: "fails twice", attempts: 3, code: codes.OK, script: func(c triedCall) error {
		if c.n < 2 {
			return unavailable()
		}
		return nil
	}},
	{name: "fails", attempts: 4, code: codes.Unavailable, script: func(triedCall) error { return unavailable() }},
	{name: "fails for good", attempts: 1, code: codes.NotFound, script: func(triedCall) error { return status.Error(codes.NotFound, "scripted") }},
	{name: "fails after a message", attempts: 1, code: codes.Unavailable, many: true, script: func(c triedCall) error {
		if err := c.send(); err != nil {
			return err
		}
		return unavailable()
	}},
	{name: "pushback", attempts: 4, code: codes.Unavailable, script: func(c triedCall) error { return failing(c.ctx, "0") }},
	{name: "pushback forbids", attempts: 1, code: codes.Unavailable, script: func(c triedCall) error { return failing(c.ctx, "-1") }},
	{name: "throttled", throttle: `"retryThrottling":{"maxTokens":4,"tokenRatio":0.1},`, attempts: 2, code: codes.Unavailable,
		script: func(triedCall) error { return unavailable() }},
	{name: "more than may be kept", opts: []grpc.CallOption{grpc.MaxRetryRPCBufferSize(500)}, attempts: 1, code: codes.Unavailable,
		script: func(triedCall) error { return unavailable() }, differs: "unary"},
}

// TestRetriesOverEachCarrier: the retry policy decides alike on every kind of call over every carrier, and as grpc-go's client does. An attempt
// that is not the first is sent all of the request.
func TestRetriesOverEachCarrier(t *testing.T) {
	t.Parallel()
	for _, by := range triedClients() {
		t.Run(by.name, func(t *testing.T) {
			for _, scene := range retryScenes {
				for _, kind := range triedKinds {
					if by.major == 1 && kind.sent && kind.back || scene.many && !kind.back {
						continue
					}
					reads := []int{triedMessages + 1}                       // to the end
					if kind.sent && by.major == 2 && by.name != "grpc-go" { // whose status is that of a Send which fails, now and then
						reads = []int{0, 1, triedMessages, triedMessages + 1}
					}
					for _, reads := range reads {
						svc := newTriedService()
						svc.script, svc.reads = scene.script, reads
						c := pb.NewTestServiceClient(by.start(t, svc, `{`+scene.throttle+retryConfig[1:]))
						err := kind.do(ctxFor(t), c, scene.opts...)
						attempts := scene.attempts
						if scene.differs == kind.name && by.name != "grpc-go" {
							attempts = 4
						}
						svc.mu.Lock()
						if status.Code(err) != scene.code || svc.attempts != attempts {
							t.Errorf("%s, %s, %d messages read: %d attempts, %v; want %d, %v", scene.name, kind.name, reads, svc.attempts, err, attempts, scene.code)
						}
						if kind.sent && err == nil && svc.got != triedMessages {
							t.Errorf("%s, %s: the last attempt got %d messages", scene.name, kind.name, svc.got)
						}
						svc.mu.Unlock()
					}
				}
			}
		})
	}
}

// TestRetriesEndWithTheCall: a call whose deadline passes, or that is cancelled, in an attempt that is not the first ends for that reason,
// over every carrier.
func TestRetriesEndWithTheCall(t *testing.T) {
	t.Parallel()
	for _, by := range triedClients() {
		t.Run(by.name, func(t *testing.T) {
			for _, kind := range triedKinds {
				if by.major == 1 && kind.sent && kind.back {
					continue
				}
				for _, want := range []codes.Code{codes.Canceled, codes.DeadlineExceeded} {
					second := make(chan struct{})
					svc := newTriedService()
					svc.script = func(c triedCall) error {
						if c.n == 0 {
							return unavailable()
						}
						close(second)
						<-c.ctx.Done()
						return c.ctx.Err()
					}
					c := pb.NewTestServiceClient(by.start(t, svc, retryConfig))
					ctx, cancel := context.WithCancel(ctxFor(t))
					if want == codes.DeadlineExceeded {
						ctx, cancel = context.WithTimeout(ctxFor(t), 100*time.Millisecond)
					}
					defer cancel()
					ended := make(chan error, 1)
					go func() { ended <- kind.do(ctx, c) }()
					if want == codes.Canceled {
						<-second
						cancel()
					}
					if err := <-ended; status.Code(err) != want {
						t.Errorf("%s: %v, want %v", kind.name, err, want)
					}
				}
			}
		})
	}
}

// TestHeaderEndsRetries: a stream whose caller has been given the header is not tried again, over every carrier.
func TestHeaderEndsRetries(t *testing.T) {
	for _, by := range triedClients() {
		t.Run(by.name, func(t *testing.T) {
			seen := make(chan struct{})
			svc := newTriedService()
			c := pb.NewTestServiceClient(by.start(t, svc, retryConfig))
			svc.script = func(c triedCall) error {
				if err := grpc.SendHeader(c.ctx, metadata.Pairs("h", "1")); err != nil {
					return err
				}
				<-seen
				return unavailable()
			}
			s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
			if err != nil {
				t.Fatal(err)
			}
			md, err := s.Header()
			if err != nil || !slices.Equal(md["h"], []string{"1"}) {
				t.Errorf("header %v, %v", md, err)
			}
			close(seen)
			_, err = s.Recv()
			wantCode(t, err, codes.Unavailable)
			if md, err := s.Header(); err != nil || !slices.Equal(md["h"], []string{"1"}) {
				t.Errorf("after the end: header %v, %v", md, err)
			}
			if svc.attempts != 1 {
				t.Errorf("%d attempts", svc.attempts)
			}
		})
	}
}

// TestRefusedUnseen: an attempt that the server has refused unseen is made again once, without a policy, over every carrier, whatever the
// kind of call.
func TestRefusedUnseen(t *testing.T) {
	for name, dial := range map[string]func(t *testing.T, addr string) grpc.ClientConnInterface{
		"grpc-go": func(t *testing.T, addr string) grpc.ClientConnInterface { return dialGRPC(t, addr) },
		"gRPC":    func(t *testing.T, addr string) grpc.ClientConnInterface { return dialTarn(t, addr) },
		"gRPC-Web": func(t *testing.T, addr string) grpc.ClientConnInterface {
			return dialH2C(t, addr, rpc.WithProtocol(rpc.GRPCWeb))
		},
		"Connect": func(t *testing.T, addr string) grpc.ClientConnInterface {
			return dialH2C(t, addr, rpc.WithProtocol(rpc.Connect))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range triedKinds {
				var mu sync.Mutex
				n := 0
				addr := rawServerOf(t, func(p *rawPeer, h *http2.MetaHeadersFrame) {
					mu.Lock()
					n++
					first := n == 1
					mu.Unlock()
					if first {
						p.fr.WriteRSTStream(h.StreamID, http2.ErrCodeRefusedStream)
						return
					}
					for ended := h.StreamEnded(); !ended; {
						fr, err := p.fr.ReadFrame()
						if err != nil {
							return
						}
						d, ok := fr.(*http2.DataFrame)
						ended = ok && d.StreamID == h.StreamID && d.StreamEnded()
					}
					answerWell(p, h)
				})
				err := kind.do(ctxFor(t), pb.NewTestServiceClient(dial(t, addr)))
				mu.Lock()
				if err != nil || n != 2 {
					t.Errorf("%s: %v after %d requests", kind.name, err, n)
				}
				mu.Unlock()
			}
		})
	}
}

// dialH2C connects by HTTP/2 without TLS.
func dialH2C(t *testing.T, addr string, opts ...rpc.DialOption) *rpc.ClientConn {
	rt := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}, DisableCompression: true}
	t.Cleanup(rt.CloseIdleConnections)
	return dialBy(t, addr, rt, opts...)
}

// answerWell answers a request with one empty message and OK, in its protocol.
func answerWell(p *rawPeer, h *http2.MetaHeadersFrame) {
	contentType := ""
	for _, f := range h.Fields {
		if f.Name == "content-type" {
			contentType = f.Value
		}
	}
	head := func(ends bool, kv ...string) {
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: h.StreamID, EndHeaders: true, EndStream: ends, BlockFragment: p.block(kv...)})
	}
	const empty = "\x00\x00\x00\x00\x00"
	switch {
	case strings.HasPrefix(contentType, "application/grpc-web"):
		head(false, ":status", "200", "content-type", contentType)
		p.fr.WriteData(h.StreamID, true, []byte(empty+"\x80\x00\x00\x00\x0fgrpc-status: 0\n"))
	case strings.HasPrefix(contentType, "application/grpc"):
		head(false, ":status", "200", "content-type", contentType)
		p.fr.WriteData(h.StreamID, false, []byte(empty))
		head(true, "grpc-status", "0")
	case strings.HasPrefix(contentType, "application/connect"):
		head(false, ":status", "200", "content-type", contentType)
		p.fr.WriteData(h.StreamID, true, []byte(empty+"\x02\x00\x00\x00\x02{}"))
	case contentType == "application/proto":
		head(true, ":status", "200", "content-type", contentType)
	default:
		panic(fmt.Sprintf("content type %q", contentType))
	}
}
