package tarn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"connectrpc.com/conformance/internal"
	"connectrpc.com/conformance/internal/app/grpcserver"
	conformance "connectrpc.com/conformance/internal/gen/proto/go/connectrpc/conformance/v1"
	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// served is a server under test that has not been started.
type served struct {
	listener net.Listener
	version  conformance.HTTPVersion
	tls      *tls.Config // nil: plaintext
	pool     *tarn.Pool
	options  []rpc.ServerOption
}

// serving serves s until ctx ends.
type serving func(ctx context.Context, s *served) error

// server is a server under test: it reads what to serve, writes its address, and serves until the runner ends it.
func (p *peer) server(serve serving) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	req := new(conformance.ServerCompatRequest)
	if err := p.codec.NewDecoder(os.Stdin).DecodeNext(req); err != nil {
		return err
	}
	s := &served{version: req.HttpVersion, pool: tarntest.NewPool(p)}
	s.options = []rpc.ServerOption{rpc.Pool(s.pool), rpc.MaxRecvMsgSize(int(req.MessageReceiveLimit)), rpc.WaitForHandlers(true)}
	if req.UseTls {
		cert, err := internal.ParseServerCert(req.ServerCreds.GetCert(), req.ServerCreds.GetKey())
		if err != nil {
			return err
		}
		mode := tls.NoClientCert
		if len(req.ClientTlsCert) > 0 {
			mode = tls.RequireAndVerifyClientCert
		}
		if s.tls, err = internal.NewServerTLSConfig(cert, mode, req.ClientTlsCert); err != nil {
			return err
		}
	}
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	at := s.listener.Addr().(*net.TCPAddr)
	err = p.codec.NewEncoder(os.Stdout).Encode(&conformance.ServerCompatResponse{
		Host: at.IP.String(), Port: uint32(at.Port), PemCert: req.ServerCreds.GetCert(),
	})
	if err != nil {
		return err
	}
	return serve(ctx, s)
}

// newServer has the suite's service.
func (s *served) newServer(opts ...rpc.ServerOption) *rpc.Server {
	srv := rpc.NewServer(append(s.options, opts...)...)
	conformance.RegisterConformanceServiceServer(srv, service{grpcserver.NewConformanceServiceServer()})
	return srv
}

// onServe serves on one port, without net/http but for HTTP/1.1.
func onServe(ctx context.Context, s *served) error {
	var opts []rpc.ServerOption
	if s.tls != nil {
		opts = append(opts, rpc.Creds(credentials.NewTLS(s.tls)))
	}
	srv := s.newServer(opts...)
	context.AfterFunc(ctx, srv.Stop)
	if err := srv.Serve(s.listener); err != nil {
		return err
	}
	srv.Stop() // waits for the handlers
	return nil
}

// onNetHTTP serves by ServeHTTP with net/http's HTTP/2.
func onNetHTTP(ctx context.Context, s *served) error {
	return s.byHTTP(ctx, func(srv *http.Server) error {
		if s.tls != nil {
			return srv.ServeTLS(s.listener, "", "")
		}
		return srv.Serve(s.listener)
	})
}

// onH2HTTP serves by ServeHTTP with package h2http.
func onH2HTTP(ctx context.Context, s *served) error {
	return s.byHTTP(ctx, func(srv *http.Server) error {
		if err := h2http.ConfigureServer(srv, &h2http.Config{Pool: s.pool}); err != nil {
			return err
		}
		if s.tls != nil {
			return h2http.ServeTLS(s.listener, srv, "", "")
		}
		return h2http.Serve(s.listener, srv)
	})
}

func (s *served) byHTTP(ctx context.Context, serve func(*http.Server) error) error {
	srv := s.newServer()
	hs := &http.Server{Handler: withQuery(srv), TLSConfig: s.tls, Protocols: new(http.Protocols)}
	one := s.version == conformance.HTTPVersion_HTTP_VERSION_1
	hs.Protocols.SetHTTP1(one)
	hs.Protocols.SetHTTP2(!one)
	hs.Protocols.SetUnencryptedHTTP2(!one)
	context.AfterFunc(ctx, func() { hs.Close() })
	if err := serve(hs); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	srv.GracefulStop() // waits for the handlers
	return nil
}

// queryKey is the key of a GET's query in a handler's context.
type queryKey struct{}

// withQuery makes the query of a GET available to the service.
func withQuery(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			r = r.WithContext(context.WithValue(r.Context(), queryKey{}, r.URL.Query()))
		}
		h.ServeHTTP(w, r)
	})
}

// service is the suite's own service for grpc-go, and the method that it leaves to Connect.
type service struct {
	conformance.ConformanceServiceServer
}

// IdempotentUnary is Unary for GET: the request that it reports is its own, with the query.
func (s service) IdempotentUnary(ctx context.Context, in *conformance.IdempotentUnaryRequest) (*conformance.IdempotentUnaryResponse, error) {
	out, err := s.Unary(ctx, &conformance.UnaryRequest{ResponseDefinition: in.ResponseDefinition, RequestData: in.RequestData})
	if err == nil {
		return &conformance.IdempotentUnaryResponse{Payload: out.Payload}, reportGet(ctx, out.Payload.RequestInfo, in)
	}
	st := status.Convert(err).Proto()
	for _, detail := range st.Details {
		info := new(conformance.ConformancePayload_RequestInfo)
		if !detail.MessageIs(info) {
			continue
		}
		if err := detail.UnmarshalTo(info); err != nil {
			return nil, err
		}
		if err := reportGet(ctx, info, in); err != nil {
			return nil, err
		}
		if err := detail.MarshalFrom(info); err != nil {
			return nil, err
		}
	}
	return nil, status.ErrorProto(st)
}

// reportGet reports a request of IdempotentUnary.
func reportGet(ctx context.Context, info *conformance.ConformancePayload_RequestInfo, in proto.Message) error {
	request, err := anypb.New(in)
	if err != nil {
		return err
	}
	info.Requests = []*anypb.Any{request}
	if query, ok := ctx.Value(queryKey{}).(url.Values); ok {
		info.ConnectGetInfo = &conformance.ConformancePayload_ConnectGetInfo{QueryParams: internal.ConvertToProtoHeader(query)}
	}
	return nil
}
