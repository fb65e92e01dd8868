package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/local"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
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
