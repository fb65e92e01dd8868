package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
)

// viewing keeps a view of what it is unmarshalled from, as messages of gogo/protobuf with custom types do.
type viewing struct{ b []byte }

func (m *viewing) Reset()                          { m.b = nil }
func (m *viewing) String() string                  { return string(m.b) }
func (*viewing) ProtoMessage()                     {}
func (m *viewing) Unmarshal(b []byte) error        { m.b = b; return nil }
func (m *viewing) Marshal() ([]byte, error)        { return bytes.Clone(m.b), nil }
func (m *viewing) Size() int                       { return len(m.b) }
func (m *viewing) MarshalTo(b []byte) (int, error) { return copy(b, m.b), nil }

// legacyViewing has no methods that rpc calls itself: protobuf-go calls Unmarshal.
type legacyViewing struct{ v viewing }

func (m *legacyViewing) Reset()                   { m.v.Reset() }
func (m *legacyViewing) String() string           { return m.v.String() }
func (*legacyViewing) ProtoMessage()              {}
func (m *legacyViewing) Unmarshal(b []byte) error { return m.v.Unmarshal(b) }
func (m *legacyViewing) Marshal() ([]byte, error) { return m.v.Marshal() }

// TestKeptViews: messages whose Unmarshal keeps views do not change when the memory that was received is used again. The pools of the test
// overwrite memory when it is freed.
func TestKeptViews(t *testing.T) {
	kinds := map[string]struct {
		fresh func(string) any
		text  func(any) string
	}{
		"gogo":   {func(s string) any { return &viewing{[]byte(s)} }, func(v any) string { return v.(*viewing).String() }},
		"legacy": {func(s string) any { return &legacyViewing{viewing{[]byte(s)}} }, func(v any) string { return v.(*legacyViewing).String() }},
	}
	for kind, k := range kinds {
		var mu sync.Mutex
		var kept []any // by handlers and the client, which the network alone keeps in order
		keep := func(m any) {
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, m)
		}
		unary := func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := k.fresh("")
			if err := dec(in); err != nil {
				return nil, err
			}
			keep(in)
			return k.fresh(k.text(in)), nil
		}
		stream := func(_ any, s grpc.ServerStream) error {
			for {
				in := k.fresh("")
				if err := s.RecvMsg(in); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				keep(in)
				if err := s.SendMsg(k.fresh(k.text(in))); err != nil {
					return err
				}
			}
		}
		desc := &grpc.ServiceDesc{ServiceName: "a.B", Methods: []grpc.MethodDesc{{MethodName: "C", Handler: unary}},
			Streams: []grpc.StreamDesc{{StreamName: "D", Handler: stream, ClientStreams: true, ServerStreams: true}}}
		for _, lent := range []bool{false, true} {
			pool := tarntest.NewPool(t)
			opts := []rpc.ServerOption{rpc.Pool(pool), rpc.WaitForHandlers(true)}
			if lent {
				opts = append(opts, rpc.LendRequests())
			}
			s := rpc.NewServer(opts...)
			s.RegisterService(desc, nil)
			addr := serve(t, s)
			for _, protocol := range []struct {
				name, target string
				p            rpc.Protocol
			}{{"gRPC", addr, rpc.GRPC}, {"gRPC-Web", "http://" + addr, rpc.GRPCWeb}, {"Connect", "http://" + addr, rpc.Connect}} {
				cc := dialTarn(t, protocol.target, rpc.WithPool(pool), rpc.WithProtocol(protocol.p))
				for _, n := range []int{20, 600, 5000, 50000, 300000} {
					name := fmt.Sprintf("%s, %s, lent %v, %d bytes", kind, protocol.name, lent, n)
					want := strings.Repeat("a", n)
					out := k.fresh("")
					if err := cc.Invoke(ctxFor(t), "/a.B/C", k.fresh(want), out); err != nil {
						t.Fatal(name, err)
					}
					keep(out)
					if protocol.p == rpc.GRPC {
						st, err := cc.NewStream(ctxFor(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/a.B/D")
						if err != nil {
							t.Fatal(name, err)
						}
						for range 2 {
							out := k.fresh("")
							if err := st.SendMsg(k.fresh(want)); err != nil {
								t.Fatal(name, err)
							}
							if err := st.RecvMsg(out); err != nil {
								t.Fatal(name, err)
							}
							keep(out)
						}
						st.CloseSend()
						if err := st.RecvMsg(k.fresh("")); err != io.EOF {
							t.Fatal(name, err)
						}
					}
					mu.Lock()
					for i, m := range kept {
						if k.text(m) != want {
							t.Errorf("%s: message %d of %d has changed", name, i, len(kept))
						}
					}
					kept = nil
					mu.Unlock()
				}
			}
		}
	}
}
