package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/local"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
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
	// Metadata that may not be sent fails the call before a token is asked for, as in grpc-go.
	ctx := metadata.AppendToOutgoingContext(ctxFor(t), "not a key", "x")
	_, err := c.EmptyCall(ctx, &pb.Empty{}, grpc.PerRPCCredentials(token{err: status.Error(codes.Unavailable, "later")}))
	wantCode(t, err, codes.Internal)
	_, err = rpc.NewClient(addr, rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithPerRPCCredentials(token{secure: true}))
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

// labelledToken are per-RPC credentials with a value for the key "who", and one of its own.
type labelledToken string

func (n labelledToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"Who": string(n), "from-" + string(n): "1"}, nil
}
func (labelledToken) RequireTransportSecurity() bool { return false }

// TestCredentialsWithOneKey: of the credentials of a client, the last that has a key sets its value. Those of the call add
// theirs, and what the call's context has for the key follows, as in grpc-go.
func TestCredentialsWithOneKey(t *testing.T) {
	var mu sync.Mutex
	var got metadata.MD
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		got, _ = metadata.FromIncomingContext(ctx)
		return &pb.SimpleResponse{}, nil
	}})
	b := bundle{insecure.NewCredentials(), labelledToken("bundle")}
	cc, err := rpc.NewClient(addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithContextDialer(dialOver(t)), rpc.WithCredentialsBundle(b),
		rpc.WithPerRPCCredentials(labelledToken("first")), rpc.WithPerRPCCredentials(labelledToken("second")))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	stock, err := grpc.NewClient(addr, grpc.WithContextDialer(dialOver(t)), grpc.WithCredentialsBundle(b),
		grpc.WithPerRPCCredentials(labelledToken("first")), grpc.WithPerRPCCredentials(labelledToken("second")))
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	connect, err := rpc.NewClient(addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithContextDialer(dialOver(t)), rpc.WithProtocol(rpc.Connect), rpc.WithCredentialsBundle(b),
		rpc.WithPerRPCCredentials(labelledToken("first")), rpc.WithPerRPCCredentials(labelledToken("second")))
	if err != nil {
		t.Fatal(err)
	}
	defer connect.Close()
	for name, cc := range map[string]grpc.ClientConnInterface{"tarn": cc, "grpc-go": stock, "Connect": connect} {
		ctx := metadata.AppendToOutgoingContext(ctxFor(t), "who", "context", "who", "context again")
		if _, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{}, grpc.PerRPCCredentials(labelledToken("call"))); err != nil {
			t.Fatal(name, err)
		}
		mu.Lock()
		if want := []string{"bundle", "call", "context", "context again"}; !slices.Equal(got["who"], want) {
			t.Errorf("%s: the server got %q, want %q", name, got["who"], want)
		}
		for _, from := range []string{"first", "second", "bundle", "call"} {
			if v := got["from-"+from]; !slices.Equal(v, []string{"1"}) {
				t.Errorf("%s: from-%s is %q", name, from, v)
			}
		}
		mu.Unlock()
	}
}

// protocolCredentials are insecure credentials of another name.
type protocolCredentials struct {
	credentials.TransportCredentials
	protocol string
}

func (c protocolCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: c.protocol}
}
func (c protocolCredentials) Clone() credentials.TransportCredentials { return c }

// startSchemes serves the streams of each connection, one at a time, with an OK when the client has ended its side, sends the stream's :scheme,
// and returns its address. An answer before that would race with the request.
func startSchemes(t *testing.T, to chan<- string) (addr string) {
	return rawServerOf(t, func(p *rawPeer, h *http2.MetaHeadersFrame) {
		scheme := h.PseudoValue("scheme")
		if !h.StreamEnded() {
			p.readRequest(h.StreamID)
		}
		to <- scheme
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: h.StreamID, EndHeaders: true, EndStream: true,
			BlockFragment: p.block(":status", "200", "content-type", "application/grpc", "grpc-status", "0")})
	})
}

// TestScheme: :scheme is https if the protocol of a connection's transport credentials is "tls", otherwise http, as in grpc-go. The
// credentials may be the client's or of the bundle that a balancer gives a SubConn; a dialer's TLS does not matter.
func TestScheme(t *testing.T) {
	named := func(protocol string) credentials.TransportCredentials {
		return protocolCredentials{insecure.NewCredentials(), protocol}
	}
	viaBundle := bundleAlways("scheme_bundling_test", bundle{conn: named("tls")})
	got := make(chan string, 1)
	addr := startSchemes(t, got)
	for _, x := range []struct {
		name, config string
		creds        credentials.TransportCredentials
		want         string
	}{
		{"insecure", "{}", insecure.NewCredentials(), "http"},
		{"tls", "{}", named("tls"), "https"},
		{"alts", "{}", named("alts"), "http"},
		{"local", "{}", named("local"), "http"},
		{"insecure, and the balancer's are tls", viaBundle, insecure.NewCredentials(), "https"},
		{"tls, and the balancer's, too", viaBundle, named("tls"), "https"},
	} {
		ours, err := rpc.NewClient(addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(x.creds), rpc.WithDefaultServiceConfig(x.config))
		if err != nil {
			t.Fatal(err)
		}
		stock, err := grpc.NewClient(addr, grpc.WithTransportCredentials(x.creds), grpc.WithDefaultServiceConfig(x.config))
		if err != nil {
			t.Fatal(err)
		}
		for name, cc := range map[string]*grpc.ClientConn{"tarn": rpc.AsGRPC(ours), "grpc-go": stock} {
			for range 2 {
				s, err := pb.NewTestServiceClient(cc).StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				if err == nil {
					_, err = s.Recv()
				}
				if err != io.EOF {
					t.Fatalf("%s, %s: %v", x.name, name, err)
				}
				if s := <-got; s != x.want {
					t.Errorf("%s, %s: %q, want %q", x.name, name, s, x.want)
				}
			}
		}
		ours.Close()
		stock.Close()
	}
}

// TestSchemesOfOneClient: the connections of one client that have different :schemes do not share the header blocks that it keeps for a method,
// whichever is used first, neither for its own calls nor for those of a library with a user agent of its own.
func TestSchemesOfOneClient(t *testing.T) {
	const config = `{"loadBalancingConfig":[{"schemes_of_one_client_test":{}}]}`
	plain, private := make(chan string, 1), make(chan string, 1)
	plainAddr, privateAddr := startSchemes(t, plain), startSchemes(t, private)
	balancer.Register(bundling{name: "schemes_of_one_client_test", of: "round_robin", bundle: func(a resolver.Address) credentials.Bundle {
		if a.Addr == privateAddr {
			return bundle{conn: protocolCredentials{insecure.NewCredentials(), "tls"}}
		}
		return nil
	}})
	r := manual.NewBuilderWithScheme("schemes")
	state := resolver.State{}
	for _, addr := range []string{plainAddr, privateAddr} {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	r.InitialState(state)
	for range 4 { // round_robin begins at random
		cc := dialTarn(t, "schemes:///x", rpc.WithResolvers(r), rpc.WithDefaultServiceConfig(config))
		library, err := grpc.NewClient("passthrough:///library", append([]grpc.DialOption{grpc.WithUserAgent("library")}, rpc.DialOptions(cc)...)...)
		if err != nil {
			t.Fatal(err)
		}
		defer library.Close()
		for _, c := range []grpc.ClientConnInterface{cc, library} {
			for plains, privates := 0, 0; plains < 2 || privates < 2; {
				s, err := pb.NewTestServiceClient(c).StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{})
				if err == nil {
					_, err = s.Recv()
				}
				if err != io.EOF {
					t.Fatal(err)
				}
				select {
				case s := <-plain:
					plains++
					if s != "http" {
						t.Errorf("%q on a connection without TLS", s)
					}
				case s := <-private:
					privates++
					if s != "https" {
						t.Errorf("%q on a connection with TLS", s)
					}
				}
			}
		}
	}
}
