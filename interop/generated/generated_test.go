package generated

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tarn-go/tarn/interop/generated/opaque"
	"github.com/tarn-go/tarn/interop/generated/vt"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
)

// counted is a message of vtprotobuf that counts how often its methods are called.
type counted struct {
	*vt.Record
	marshalled, unmarshalled *atomic.Int32
}

func (c counted) MarshalToSizedBufferVT(dst []byte) (int, error) {
	c.marshalled.Add(1)
	return c.Record.MarshalToSizedBufferVT(dst)
}

func (c counted) UnmarshalVT(src []byte) error {
	c.unmarshalled.Add(1)
	return c.Record.UnmarshalVT(src)
}

// record fills a message with bytes fields of n bytes in every place.
func record(m protoreflect.Message, n, depth int) protoreflect.Message {
	fields := m.Descriptor().Fields()
	field := func(name protoreflect.Name) protoreflect.FieldDescriptor { return fields.ByName(name) }
	blob := func(b byte) protoreflect.Value { return protoreflect.ValueOfBytes(bytes.Repeat([]byte{b}, n)) }
	m.Set(field("name"), protoreflect.ValueOfString("a record"))
	m.Set(field("body"), blob('b'))
	parts := m.Mutable(field("parts")).List()
	for i := range 3 {
		parts.Append(blob(byte(i)))
	}
	m.Set(field("left"), blob('l'))
	m.Mutable(field("attributes")).Map().Set(protoreflect.ValueOfString("key").MapKey(), blob('a'))
	if depth > 0 {
		record(m.Mutable(field("inner")).Message(), n, depth-1)
		more := m.Mutable(field("more")).List()
		for range 2 {
			record(more.AppendMutable().Message(), n, depth-1)
		}
	}
	return m
}

// serve starts a server whose one method answers with its request, made by fresh.
func serve(t *testing.T, fresh func() any, opts ...rpc.ServerOption) string {
	t.Helper()
	s := rpc.NewServer(append(opts, rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.MaxRecvMsgSize(64<<20))...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "generated.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := fresh()
			return in, dec(in)
		}}}}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestMessages: each kind of generated code, small and large (which arrive by a plan of
// the type from the second call on), lent and not.
func TestMessages(t *testing.T) {
	var marshalled, unmarshalled atomic.Int32
	for _, kind := range []struct {
		name  string
		fresh func() any
	}{
		{"vtprotobuf", func() any { return counted{new(vt.Record), &marshalled, &unmarshalled} }},
		{"opaque", func() any { return new(opaque.Record) }},
		{"dynamic", func() any { return dynamicpb.NewMessage((&vt.Record{}).ProtoReflect().Descriptor()) }},
	} {
		for _, lend := range []struct {
			name string
			opts []rpc.ServerOption
		}{{"own", nil}, {"lent", []rpc.ServerOption{rpc.LendRequests()}}} {
			t.Run(kind.name+"/"+lend.name, func(t *testing.T) {
				cc, err := rpc.NewClient(serve(t, kind.fresh, lend.opts...), rpc.WithPool(tarntest.NewPool(t)),
					rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
				if err != nil {
					t.Fatal(err)
				}
				defer cc.Close()
				for _, n := range []int{0, 100, 2 << 10, 100 << 10} {
					var replies []proto.Message
					want := kind.fresh().(proto.Message)
					record(want.ProtoReflect(), n, 1)
					for range 3 {
						got := kind.fresh().(proto.Message)
						if err := cc.Invoke(t.Context(), "/generated.Echo/Echo", want, got); err != nil {
							t.Fatal(err)
						}
						replies = append(replies, got)
					}
					for i, got := range replies { // when later calls have used the memory again
						if !proto.Equal(want, got) {
							t.Errorf("reply %d of %d bytes is another", i, n)
						}
					}
				}
			})
		}
	}
	if m, u := marshalled.Load(), unmarshalled.Load(); m == 0 || u == 0 {
		t.Errorf("vtprotobuf's methods were called %d and %d times", m, u)
	}
}

// TestMalformed: the error of a generated method is the call's error. vtprotobuf's code does not check that a string is
// UTF-8, as protobuf's own does.
func TestMalformed(t *testing.T) {
	addr := serve(t, func() any { return new(vt.Record) })
	cc, err := rpc.NewClient(addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	pool := tarntest.NewPool(t)
	for i, wrong := range [][]byte{{0xff}, {0x12, 0x7f}, bytes.Repeat([]byte{0x12}, 1001)} {
		b := pool.Copy(wrong)
		if err := cc.Invoke(t.Context(), "/generated.Echo/Echo", &b, new(vt.Record)); err == nil {
			t.Error(fmt.Sprint(i), "was accepted")
		}
	}
	notUTF8 := []byte{0x0a, 0x01, 0xff}
	b := pool.Copy(notUTF8)
	if err := cc.Invoke(t.Context(), "/generated.Echo/Echo", &b, new(vt.Record)); err != nil {
		t.Errorf("vtprotobuf's code, a string that is not UTF-8: %v", err)
	}
	own, err := rpc.NewClient(serve(t, func() any { return new(opaque.Record) }), rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	b = pool.Copy(notUTF8)
	if err := own.Invoke(t.Context(), "/generated.Echo/Echo", &b, new(opaque.Record)); err == nil {
		t.Error("protobuf's own code accepts a string that is not UTF-8")
	}
}
