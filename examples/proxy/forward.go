package main

import (
	"context"
	"io"
	"math"
	"strings"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// both declares that either side of a forwarded call may stream: a proxy without
// descriptors cannot distinguish methods, and a unary call is a stream of one message.
var both = grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// forwardTo returns a handler that forwards calls to backend: metadata, deadline
// and cancellation, messages both ways, header, trailer and status.
func forwardTo(backend grpc.ClientConnInterface) grpc.StreamHandler {
	return func(_ any, in grpc.ServerStream) error {
		method, ok := grpc.MethodFromServerStream(in)
		if !ok {
			return status.Error(codes.Internal, "the call has no method")
		}
		md, _ := metadata.FromIncomingContext(in.Context())
		ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(in.Context(), forwarded(md)))
		defer cancel()
		out, err := backend.NewStream(ctx, &both, method, grpc.ForceCodecV2(rpc.RawCodec{Subtype: subtype(md)}),
			grpc.MaxCallRecvMsgSize(math.MaxInt32))
		if err != nil {
			return err
		}
		// An error of sending is also an error of the response. The pump's goroutine ends with the
		// call: it may be waiting for the client.
		go func() { _ = pump(in.RecvMsg, out.SendMsg, out.CloseSend) }()
		err = respond(in, out)
		cancel()
		return err
	}
}

// pump moves messages until there are no more, each by reference, then calls end.
func pump(recv, send func(any) error, end func() error) error {
	var msg tarn.Chain
	defer msg.Free()
	for {
		if err := recv(&msg); err == io.EOF {
			return end()
		} else if err != nil {
			return err
		}
		if err := send(&msg); err != nil { // takes what msg holds
			return err
		}
	}
}

// respond moves the response: header, messages, trailer, status.
func respond(in grpc.ServerStream, out grpc.ClientStream) error {
	if header, err := out.Header(); err == nil && header != nil {
		if err := in.SendHeader(forwarded(header)); err != nil {
			return err
		}
	}
	err := pump(out.RecvMsg, in.SendMsg, func() error { return nil })
	in.SetTrailer(forwarded(out.Trailer()))
	return err
}

// forwarded is md without what belongs to one hop.
func forwarded(md metadata.MD) metadata.MD {
	md = md.Copy()
	for _, k := range []string{":authority", "content-type", "user-agent", "grpc-accept-encoding", "grpc-encoding"} {
		delete(md, k)
	}
	return md
}

// subtype is the content subtype of a request: proto of application/grpc+proto and of application/grpc-web+proto.
func subtype(md metadata.MD) string {
	if ct := md.Get("content-type"); len(ct) > 0 {
		_, sub, _ := strings.Cut(ct[0], "+")
		return sub
	}
	return ""
}
