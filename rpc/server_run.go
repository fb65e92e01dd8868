package rpc

import (
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// This file has what a call of Serve and one of ServeHTTP do alike with the program's code.

// runStream runs a streaming handler with its interceptors, or for a nil m the one for unknown methods.
func (s *Server) runStream(m *method, path string, ss grpc.ServerStream) error {
	handler, impl, info := s.opts.unknown, any(nil), (*grpc.StreamServerInfo)(nil)
	if m != nil {
		handler, impl, info = m.stream.Handler, m.impl, m.info
	} else {
		info = &grpc.StreamServerInfo{FullMethod: path, IsClientStream: true, IsServerStream: true}
	}
	if s.stream == nil {
		return handler(impl, ss)
	}
	return s.stream(impl, ss, info, handler)
}

// recovered is the error of a call in which the program's code panicked with v. It calls the PanicHandler. The message for the client does not
// contain v, which may be confidential.
func (s *Server) recovered(path string, v any) error {
	stack := debug.Stack()
	if hook := s.opts.onPanic; hook != nil {
		hook(path, v, stack)
	} else {
		logger.Errorf("the handler of %s panicked: %v\n%s", path, v, stack)
	}
	return status.Error(codes.Internal, "the handler panicked")
}

// refusedBy is the status of a call that InTapHandle's function refused with err.
func refusedBy(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.New(codes.PermissionDenied, err.Error())
}
