package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/grpc"
)

// CallMetricsServerOption reports the load of each call (ORCA, gRFC A51) like grpc-go's option, which is its
// argument:
//
//	rpc.NewServer(rpc.CallMetricsServerOption(orca.CallMetricsServerOption(provider)))
//
// Handlers get the recorder from orca.CallMetricsRecorderFromContext. orca.Register serves out-of-band
// reports and takes a *Server. It panics if o has no interceptor of unary calls: then it is another option.
//
// The argument is the option, rather than the provider, so that this package does not import package orca and
// the xDS messages that it needs.
func CallMetricsServerOption(o grpc.ServerOption) ServerOption {
	i := unaryInterceptorOf(o)
	if i == nil {
		panic("rpc: caller gave CallMetricsServerOption an option that is not orca.CallMetricsServerOption's")
	}
	stream := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		// The unary interceptor does for a stream what orca's does: it adds a recorder to the context and
		// sets the trailer by that context.
		_, err := i(s.Context(), nil, &grpc.UnaryServerInfo{Server: srv, FullMethod: info.FullMethod}, func(ctx context.Context, _ any) (any, error) {
			return nil, handler(srv, &streamIn{s, ctx})
		})
		return err
	}
	return serverOption(func(so *serverOptions) {
		so.unary, so.stream = append(so.unary, i), append(so.stream, stream)
	})
}

// streamIn is a stream with another context.
type streamIn struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *streamIn) Context() context.Context { return s.ctx }

var errProbed = errors.New("rpc: the interceptor is found")

// unaryInterceptorOf returns the interceptor that an option sets, nil when it sets none. Options are opaque:
// a server made with this one serves one call, in this process and without a connection, and the generated
// handler gets its interceptor.
func unaryInterceptorOf(o grpc.ServerOption) (found grpc.UnaryServerInterceptor) {
	s := grpc.NewServer(o)
	defer s.Stop()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "tarn.Probe", Methods: []grpc.MethodDesc{{MethodName: "Probe",
		Handler: func(_ any, _ context.Context, _ func(any) error, i grpc.UnaryServerInterceptor) (any, error) {
			found = i
			return nil, errProbed
		}}}}, nil)
	s.ServeHTTP(noResponse{}, &http.Request{Method: http.MethodPost, Proto: "HTTP/2.0", ProtoMajor: 2, URL: &url.URL{Path: "/tarn.Probe/Probe"},
		Header: http.Header{"Content-Type": {"application/grpc"}}, Body: io.NopCloser(bytes.NewReader(make([]byte, 5)))})
	return found
}

// noResponse is a response that is not read.
type noResponse struct{}

// Header implements http.ResponseWriter.
func (noResponse) Header() http.Header { return http.Header{} }

// Write implements http.ResponseWriter.
func (noResponse) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (noResponse) WriteHeader(int) {}

// Flush implements http.Flusher.
func (noResponse) Flush() {}
