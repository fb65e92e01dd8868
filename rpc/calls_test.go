package rpc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// TestDecodeKeptByAHandler keeps the function with which a handler decodes its request and calls it after the
// handler has returned, while other calls are handled: it must not decode a request of theirs.
func TestDecodeKeptByAHandler(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		kept := make(chan func(any) error, 1)
		during := make(chan error, 1)
		desc := grpc.ServiceDesc{ServiceName: "test.Keeper", Methods: []grpc.MethodDesc{
			{MethodName: "Keep", Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				kept <- dec
				return &pb.SimpleResponse{}, nil
			}},
			{MethodName: "Secret", Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				stale, got := <-kept, new(pb.SimpleRequest)
				during <- stale(got)
				if len(got.GetPayload().GetBody()) > 0 {
					t.Errorf("a kept decode function read %q", got.Payload.Body)
				}
				in := new(pb.SimpleRequest)
				if err := dec(in); err != nil {
					return nil, err
				}
				return &pb.SimpleResponse{Payload: in.Payload}, nil
			}}}}
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.NumStreamWorkers(1))
		s.RegisterService(&desc, nil)
		cc := dialTarn(t, serve(t, s))
		secret := &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte("alice's secret")}}
		for range 20 {
			if err := cc.Invoke(ctxFor(t), "/test.Keeper/Keep", &pb.SimpleRequest{}, &pb.SimpleResponse{}); err != nil {
				t.Fatal(err)
			}
			out := new(pb.SimpleResponse)
			if err := cc.Invoke(ctxFor(t), "/test.Keeper/Secret", secret, out); err != nil {
				t.Fatal(err)
			}
			if string(out.Payload.Body) != "alice's secret" {
				t.Fatalf("the call itself got %q", out.Payload.Body)
			}
			wantCode(t, <-during, codes.Internal)
		}
	})
}

// Methods that take one message get none or two: INTERNAL.
func TestRequestCardinality(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		_, addr := startTarn(t, &testService{})
		req, err := proto.Marshal(&pb.SimpleRequest{})
		if err != nil {
			t.Fatal(err)
		}
		one := prefixed(0, req)
		for _, method := range []string{"UnaryCall", "StreamingOutputCall"} {
			for _, c := range []struct {
				name  string
				parts [][]byte // DATA frames, the last with END_STREAM
				want  string
				says  string
			}{
				{"none", [][]byte{nil}, "13", "received no request message"},
				{"one", [][]byte{one}, "0", ""},
				{"one, then the end", [][]byte{one, nil}, "0", ""},
				{"two in one frame", [][]byte{append(one[:len(one):len(one)], one...)}, "13", "received multiple request messages"},
				{"two frames", [][]byte{one, one}, "13", "received multiple request messages"},
				{"one and a half", [][]byte{one, one[:3]}, "13", ""},
			} {
				t.Run(method+"/"+c.name, func(t faultnet.OnKind) {
					p := rawClient(t, addr)
					id := p.open(false, ":path", "/grpc.testing.TestService/"+method)
					for i, part := range c.parts {
						if err := p.fr.WriteData(id, i == len(c.parts)-1, part); err != nil {
							t.Fatal(err)
						}
					}
					if got := p.answer(id); got["grpc-status"] != c.want || !strings.Contains(got["grpc-message"], c.says) {
						t.Errorf("grpc-status %q, want %q and %q (%v)", got["grpc-status"], c.want, c.says, got)
					}
				})
			}
		}
	})
}

// TestSendCompressorIsNegotiated sets a compressor that the client has not offered.
func TestSendCompressorIsNegotiated(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		type answer struct {
			supported []string
			err       error
		}
		got := make(chan answer, 1)
		svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			names, err := rpc.ClientSupportedCompressors(ctx)
			if err != nil {
				return nil, err
			}
			got <- answer{names, rpc.SetSendCompressor(ctx, "gzip")}
			return &pb.SimpleResponse{Payload: payload(100)}, nil
		}}
		_, addr := startTarn(t, svc)
		for _, c := range []struct {
			offered []string
			want    []string
			fails   bool
		}{
			{nil, nil, true},
			{[]string{"deflate"}, []string{"deflate"}, true},
			{[]string{"identity, gzip,deflate"}, []string{"identity", "gzip", "deflate"}, false},
		} {
			p := rawClient(t, addr)
			var kv []string
			for _, v := range c.offered {
				kv = append(kv, "grpc-accept-encoding", v)
			}
			id := p.open(false, kv...)
			p.fr.WriteData(id, true, prefixed(0, nil))
			head := p.answer(id)
			if head["grpc-status"] != "0" || (head["grpc-encoding"] == "gzip") == c.fails {
				t.Errorf("offered %q: %v", c.offered, head)
			}
			a := <-got
			if !slices.Equal(a.supported, c.want) || errors.Is(a.err, rpc.ErrCompressor) != c.fails {
				t.Errorf("offered %q: %q, %v", c.offered, a.supported, a.err)
			}
		}
		if _, err := rpc.ClientSupportedCompressors(context.Background()); !errors.Is(err, rpc.ErrCompressor) {
			t.Error(err)
		}
	})
}

// TestHeaderListAboveTheServersLimit sends more metadata than the server accepts.
func TestHeaderListAboveTheServersLimit(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		_, addr := startTarn(t, &testService{}, rpc.MaxHeaderListSize(4096))
		c := pb.NewTestServiceClient(dialTarn(t, addr))
		if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
		_, err := c.EmptyCall(metadata.AppendToOutgoingContext(ctxFor(t), "k", strings.Repeat("v", 4000)), &pb.Empty{})
		wantCode(t, err, codes.Internal)
		if !strings.Contains(err.Error(), "4096") {
			t.Errorf("the error does not name the limit: %v", err)
		}
		if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
			t.Fatal(err)
		}
	})
}
