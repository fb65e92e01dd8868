package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// runGRPC records a service of grpc-go, client and server on one recorder: two thirds small unary calls
// with records as answers, the rest documents, pages of a listing as a stream, and a few blobs.
func runGRPC(r *recorder, gets int) (string, error) {
	experimental.SetDefaultBufferPool(r) // messages are encoded into the default pool's buffers
	defer experimental.SetDefaultBufferPool(mem.DefaultBufferPool())

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := grpc.NewServer(experimental.BufferPool(r))
	server.RegisterService(service(), nil)
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), experimental.WithBufferPool(r))
	if err != nil {
		return "", err
	}
	defer conn.Close()

	err = drive(r, gets, func(rng *rand.Rand) error {
		ctx := context.Background()
		ask, answer := 0, 0
		switch n := rng.IntN(30); {
		case n < 20:
			ask, answer = logNormal(rng, 120, 0.6, 1<<10), logNormal(rng, 1800, 0.7, 1<<16)
		case n < 26:
			ask, answer = logNormal(rng, 20000, 1, 1<<20), logNormal(rng, 200, 0.5, 1<<10)
		case n < 29:
			return listing(ctx, conn, logNormal(rng, 9000, 0.3, 1<<16))
		default:
			ask, answer = 64, 256<<10+rng.IntN(1<<20)
		}
		in := &wrapperspb.BytesValue{Value: sizedRequest(ask, answer)}
		return conn.Invoke(ctx, "/record.Mixed/Call", in, new(wrapperspb.BytesValue))
	})
	return "grpc-go service: small unary calls, documents, listings as streams, blobs; client and server share the pool; 8 callers", err
}

func listing(ctx context.Context, conn *grpc.ClientConn, page int) error {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/record.Mixed/List")
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&wrapperspb.BytesValue{Value: sizedRequest(40, page)}); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		switch err := stream.RecvMsg(new(wrapperspb.BytesValue)); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// sizedRequest is a request of ask bytes that contains the length of the wanted response.
func sizedRequest(ask, answer int) []byte {
	b := make([]byte, max(ask, 4))
	b[0], b[1], b[2], b[3] = byte(answer), byte(answer>>8), byte(answer>>16), byte(answer>>24)
	return b
}

func answerTo(in *wrapperspb.BytesValue) *wrapperspb.BytesValue {
	b := in.Value
	return &wrapperspb.BytesValue{Value: make([]byte, int(b[0])|int(b[1])<<8|int(b[2])<<16|int(b[3])<<24)}
}

func service() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "record.Mixed",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Call",
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				in := new(wrapperspb.BytesValue)
				if err := decode(in); err != nil {
					return nil, err
				}
				return answerTo(in), nil
			},
		}},
		Streams: []grpc.StreamDesc{{
			StreamName:    "List",
			ServerStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				in := new(wrapperspb.BytesValue)
				if err := stream.RecvMsg(in); err != nil {
					return err
				}
				for range 5 {
					if err := stream.SendMsg(answerTo(in)); err != nil {
						return err
					}
				}
				return nil
			},
		}},
	}
}
