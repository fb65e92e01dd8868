package rpc_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

// generatedCalls counts the calls of generated methods.
type generatedCalls struct{ marshalled, unmarshalled atomic.Int32 }

// vtMessage has the methods that vtprotobuf generates.
type vtMessage struct {
	*pb.SimpleRequest
	calls *generatedCalls
}

func (m vtMessage) SizeVT() int { return proto.Size(m.SimpleRequest) }

func (m vtMessage) MarshalToSizedBufferVT(dst []byte) (int, error) {
	m.calls.marshalled.Add(1)
	return marshalTo(m.SimpleRequest, dst)
}

func (m vtMessage) UnmarshalVT(src []byte) error {
	m.calls.unmarshalled.Add(1)
	return proto.Unmarshal(src, m.SimpleRequest)
}

// gogoMessage has the methods that gogo/protobuf generates, and is not a message of google.golang.org/protobuf.
type gogoMessage struct {
	m     pb.SimpleRequest
	calls *generatedCalls
}

func (m *gogoMessage) Reset() { proto.Reset(&m.m) }

func (m *gogoMessage) Size() int { return proto.Size(&m.m) }

func (m *gogoMessage) MarshalTo(dst []byte) (int, error) {
	m.calls.marshalled.Add(1)
	return marshalTo(&m.m, dst)
}

func (m *gogoMessage) Unmarshal(src []byte) error {
	m.calls.unmarshalled.Add(1)
	return proto.Unmarshal(src, &m.m)
}

func marshalTo(m proto.Message, dst []byte) (int, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(dst[:0], m)
	return len(b), err
}

// TestGeneratedMethods: the methods of vtprotobuf and gogo/protobuf are used on both sides; an encoding that
// they refuse ends the call.
func TestGeneratedMethods(t *testing.T) {
	for _, kind := range []struct {
		name                     string
		marshalled, unmarshalled int32 // of 8 messages: 2 sizes, 2 rounds, each way
		fresh                    func(*generatedCalls) (any, *pb.SimpleRequest)
	}{
		// Long fields of large messages are received by a plan, and long responses sent, without a copy and
		// so without generated code, if the type has a descriptor.
		{"vtprotobuf", 6, 4, func(c *generatedCalls) (any, *pb.SimpleRequest) {
			m := vtMessage{new(pb.SimpleRequest), c}
			return m, m.SimpleRequest
		}},
		{"gogo", 8, 8, func(c *generatedCalls) (any, *pb.SimpleRequest) {
			m := &gogoMessage{calls: c}
			return m, &m.m
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			var calls generatedCalls
			pool := tarntest.NewPool(t)
			s := rpc.NewServer(rpc.Pool(pool), rpc.WaitForHandlers(true))
			s.RegisterService(&grpc.ServiceDesc{ServiceName: "generated.Echo", Methods: []grpc.MethodDesc{{MethodName: "Echo",
				Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
					m, _ := kind.fresh(&calls)
					return m, dec(m)
				}}}}, nil)
			cc := dialTarn(t, serve(t, s), rpc.WithPool(pool))
			for range 2 {
				for _, n := range []int{100, 300 << 10} {
					in, want := kind.fresh(&calls)
					want.Payload = payload(n)
					out, got := kind.fresh(&calls)
					if err := cc.Invoke(ctxFor(t), "/generated.Echo/Echo", in, out); err != nil || !proto.Equal(want, got) {
						t.Errorf("%d bytes: %v", n, err)
					}
				}
			}
			if m, u := calls.marshalled.Load(), calls.unmarshalled.Load(); m != kind.marshalled || u != kind.unmarshalled {
				t.Errorf("the methods were called %d and %d times, not %d and %d", m, u, kind.marshalled, kind.unmarshalled)
			}
			b := pool.Copy([]byte{0x12, 0x7f})
			out, _ := kind.fresh(&calls)
			wantCode(t, cc.Invoke(ctxFor(t), "/generated.Echo/Echo", &b, out), codes.Internal)
		})
	}
}
