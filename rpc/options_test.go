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
	"google.golang.org/grpc/credentials/local"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// token is per-RPC credentials.
type token struct {
	secure bool
	err    error
}

func (c token) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	ri, _ := credentials.RequestInfoFromContext(ctx)
	return map[string]string{"Authorization": "Bearer " + ri.Method, "uri": uri[0]}, c.err
}
func (c token) RequireTransportSecurity() bool { return c.secure }

func TestMutualTLSAndCredentials(t *testing.T) {
	cert, roots := testcert.New(t)
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		p, _ := peer.FromContext(ctx)
		info, ok := p.AuthInfo.(credentials.TLSInfo)
		if !ok || len(info.State.PeerCertificates) != 1 {
			return nil, status.Error(codes.Unauthenticated, "no client certificate")
		}
		md, _ := metadata.FromIncomingContext(ctx)
		return &pb.SimpleResponse{Username: fmt.Sprint(md.Get("authorization"), md.Get("uri"), md.Get(":authority"))}, nil
	}}
	_, addr := startTarn(t, svc, rpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots})))
	creds := credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}})
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithTransportCredentials(creds), rpc.WithAuthority("tarn.test"),
		rpc.WithPerRPCCredentials(token{secure: true})))
	out, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	want := "[Bearer /grpc.testing.TestService/UnaryCall] [https://tarn.test/grpc.testing.TestService] [tarn.test]"
	if err != nil || out.Username != want {
		t.Fatalf("%v, %v", out, err)
	}
	// The certificate must contain the name of an override.
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.CallAuthority("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.CallAuthority("evil.test"))
	wantCode(t, err, codes.Unavailable)
	// No call is made to a server that cannot be verified.
	_, err = pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{})))).
		UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.Unavailable)
}

func TestCallCredentials(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	c := pb.NewTestServiceClient(dialTarn(t, addr))
	for _, x := range []struct {
		creds credentials.PerRPCCredentials
		want  codes.Code
	}{
		{token{}, codes.OK},
		{token{secure: true}, codes.Unauthenticated},
		{token{err: errors.New("none")}, codes.Internal}, // as in grpc-go: TestCallOptions of interop
		{token{err: status.Error(codes.Unavailable, "later")}, codes.Unavailable},
		{token{err: status.Error(codes.NotFound, "illegal")}, codes.Internal},
	} {
		_, err := c.EmptyCall(ctxFor(t), &pb.Empty{}, grpc.PerRPCCredentials(x.creds))
		wantCode(t, err, x.want)
	}
	_, err := rpc.NewClient(addr, rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithPerRPCCredentials(token{secure: true}))
	if !errors.Is(err, rpc.ErrCredentialsNeedSecurity) {
		t.Fatal(err)
	}
}

// TestCredentialsOfInsecureConnections: credentials that need a private connection are not sent on one whose
// transport credentials say that it is not, although it is not "insecure" by name.
func TestCredentialsOfInsecureConnections(t *testing.T) {
	faultnet.NeedsTCP(t, "local credentials look at the address")
	sent := make(chan metadata.MD, 10)
	svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		sent <- md
		return &pb.SimpleResponse{}, nil
	}}
	_, addr := startTarn(t, svc)
	dialOf := func(protocol rpc.Protocol) func(p credentials.PerRPCCredentials) (grpc.ClientConnInterface, error) {
		return func(p credentials.PerRPCCredentials) (grpc.ClientConnInterface, error) {
			opts := []rpc.DialOption{rpc.WithTransportCredentials(local.NewCredentials()), rpc.WithPool(tarntest.NewPool(t)), rpc.WithProtocol(protocol)}
			if p != nil {
				opts = append(opts, rpc.WithPerRPCCredentials(p))
			}
			cc, err := rpc.NewClient(addr, opts...)
			if err == nil {
				t.Cleanup(func() { cc.Close() })
			}
			return cc, err
		}
	}
	for name, dial := range map[string]func(p credentials.PerRPCCredentials) (grpc.ClientConnInterface, error){
		"tarn": dialOf(rpc.GRPC), "Connect": dialOf(rpc.Connect), "gRPC-Web": dialOf(rpc.GRPCWeb),
		"grpc": func(p credentials.PerRPCCredentials) (grpc.ClientConnInterface, error) {
			opts := []grpc.DialOption{grpc.WithTransportCredentials(local.NewCredentials())}
			if p != nil {
				opts = append(opts, grpc.WithPerRPCCredentials(p))
			}
			cc, err := grpc.NewClient(addr, opts...)
			if err == nil {
				t.Cleanup(func() { cc.Close() })
			}
			return cc, err
		},
	} {
		for _, x := range []struct {
			client, call credentials.PerRPCCredentials
			want         codes.Code
		}{
			{nil, token{}, codes.OK},
			{nil, token{secure: true}, codes.Unauthenticated},
			{token{}, nil, codes.OK},
			{token{secure: true}, nil, codes.Unavailable},
		} {
			cc, err := dial(x.client)
			if err != nil {
				t.Fatal(err)
			}
			var opts []grpc.CallOption
			if x.call != nil {
				opts = append(opts, grpc.PerRPCCredentials(x.call))
			}
			_, err = pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}, opts...)
			if status.Code(err) != x.want {
				t.Errorf("%s, %+v: %v, want %v", name, x, err, x.want)
			}
			if err == nil {
				if md := <-sent; len(md["authorization"]) != 1 {
					t.Errorf("%s, %+v: the server got %v", name, x, md)
				}
			}
		}
		// A stream, too, is refused on the client's first connection.
		cc, err := dial(nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := pb.NewTestServiceClient(cc).StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{}, grpc.PerRPCCredentials(token{secure: true}))
		if err == nil {
			_, err = s.Recv()
		}
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: a stream ended with %v", name, err)
		}
	}
	if len(sent) > 0 {
		t.Errorf("%d more calls", len(sent))
	}
}

// turnsPrivate are transport credentials whose first connection is not private.
type turnsPrivate struct {
	credentials.TransportCredentials
	made *atomic.Int32
	open *sync.Map // the private ones, by their local address
}

func (c turnsPrivate) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "test"}
}
func (c turnsPrivate) Clone() credentials.TransportCredentials { return c }

func (c turnsPrivate) ClientHandshake(_ context.Context, _ string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	level := credentials.NoSecurity
	if c.made.Add(1) > 1 {
		level = credentials.PrivacyAndIntegrity
		c.open.Store(nc.LocalAddr().String(), nil)
	}
	return nc, credentials.TLSInfo{State: tls.ConnectionState{NegotiatedProtocol: "http/1.1"},
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: level}}, nil
}

// TestCredentialsOfTheConnectionUsed: of a web client's connections, one that is private is used for credentials that need it, and not the
// one that is at hand. Two calls at a time make a private connection beside one that is not, which is idle last and used next.
func TestCredentialsOfTheConnectionUsed(t *testing.T) {
	faultnet.NeedsTCP(t, "connections are told apart by address")
	type request struct {
		from   string
		secret bool
		answer chan struct{}
	}
	requests := make(chan request)
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		p, _ := peer.FromContext(ctx)
		md, _ := metadata.FromIncomingContext(ctx)
		r := request{p.Addr.String(), len(md["authorization"]) > 0, make(chan struct{})}
		requests <- r
		<-r.answer
		return &pb.SimpleResponse{}, nil
	}})
	creds := turnsPrivate{insecure.NewCredentials(), new(atomic.Int32), new(sync.Map)}
	cc := dialTarn(t, addr, rpc.WithProtocol(rpc.Connect), rpc.WithTransportCredentials(creds))
	call := func(opts ...grpc.CallOption) (request, chan error) {
		ended := make(chan error, 1)
		go func() {
			_, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}, opts...)
			ended <- err
		}()
		select {
		case r := <-requests:
			return r, ended
		case err := <-ended:
			t.Fatal(err)
			return request{}, nil
		}
	}
	finish := func(r request, ended chan error) {
		close(r.answer)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	first, firstEnded := call()
	second, secondEnded := call()
	finish(second, secondEnded)
	finish(first, firstEnded)
	r, ended := call(grpc.PerRPCCredentials(token{secure: true}))
	if _, private := creds.open.Load(r.from); !private || !r.secret {
		t.Errorf("sent over a private connection: %v, with credentials: %v", private, r.secret)
	}
	finish(r, ended)
}

// privateByName are transport credentials that are TLS by their name, and whose first connection is not private: those of xDS with
// insecure fallback are of this kind.
type privateByName struct{ turnsPrivate }

func (privateByName) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}
func (c privateByName) Clone() credentials.TransportCredentials { return c }

// TestCredentialsOfTheFirstConnection: a web client's first call with credentials that need a private connection fails if the connection that is
// made for it is not private, whatever the transport credentials are called.
func TestCredentialsOfTheFirstConnection(t *testing.T) {
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if md, _ := metadata.FromIncomingContext(ctx); len(md["authorization"]) > 0 {
			t.Error("the credentials were sent")
		}
		return &pb.SimpleResponse{}, nil
	}})
	if _, err := pb.NewTestServiceClient(dialTarn(t, addr)).UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil { // the server serves
		t.Fatal(err)
	}
	creds := privateByName{turnsPrivate{insecure.NewCredentials(), new(atomic.Int32), new(sync.Map)}}
	cc := dialTarn(t, addr, rpc.WithProtocol(rpc.Connect), rpc.WithTransportCredentials(creds))
	_, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{}, grpc.PerRPCCredentials(token{secure: true}))
	wantCode(t, err, codes.Unauthenticated)
}

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
