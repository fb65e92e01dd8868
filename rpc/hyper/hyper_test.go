package hyper_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/hyper"
	"github.com/tarn-go/tarn/rpc/internal/testpb"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

var (
	orders = hyper.Compile((*testpb.Order)(nil).ProtoReflect().Descriptor())
	id     = orders.Field("id")
	items  = orders.Field("items")
)

const unary, stream = "/a.Orders/Put", "/a.Orders/PutAll"

// desc is a service whose generated handlers are not used.
var desc = &grpc.ServiceDesc{ServiceName: "a.Orders", Methods: []grpc.MethodDesc{{MethodName: "Put"}}}

// order is a message with so many items.
func order(name string, n int) *testpb.Order {
	o := &testpb.Order{Id: name, Labels: map[string]string{"key": "value of " + name}}
	for i := range n {
		o.Items = append(o.Items, &testpb.Order_Item{Sku: strings.Repeat("s", i%40), Quantity: int32(i)})
	}
	return o
}

// answer makes a response that is separate memory.
func answer(in *hyper.Message) (*testpb.Order, error) {
	name := in.Get(id).String()
	if name == "panic" {
		panic("of the test")
	}
	if name == "error" {
		return nil, status.Error(codes.NotFound, name)
	}
	return &testpb.Order{Id: strings.Clone(name), CreatedMs: int64(in.Get(items).List().Len())}, nil
}

// start serves the service, and returns its address.
func start(t *testing.T, handle func(context.Context, *hyper.Message) (*testpb.Order, error), opts ...rpc.ServerOption) (*rpc.Server, string) {
	s := rpc.NewServer(append([]rpc.ServerOption{rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.PanicHandler(func(_ string, v any, stack []byte) {
		if v != "of the test" {
			t.Errorf("panic: %v\n%s", v, stack)
		}
	})}, opts...)...)
	d := hyper.Method(desc, "Put", orders, handle)
	d.Streams = []grpc.StreamDesc{{StreamName: "PutAll", ClientStreams: true, ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		for in := orders.New(); ; {
			if err := s.RecvMsg(in); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			out, err := answer(in)
			if err != nil {
				return err
			}
			if err := s.SendMsg(out); err != nil {
				return err
			}
		}
	}}}
	s.RegisterService(d, nil)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return s, lis.Addr().String()
}

func dial(t *testing.T, target string, opts ...rpc.DialOption) *rpc.ClientConn {
	cc, err := rpc.NewClient(target, append([]rpc.DialOption{rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

func ctxFor(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestCalls makes calls of both kinds over each protocol, with and without lent requests and compression, with interceptors, in errors and panics.
func TestCalls(t *testing.T) {
	for _, lent := range []bool{true, false} {
		opts := []rpc.ServerOption{rpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if _, ok := req.(*hyper.Message); !ok {
				t.Errorf("an interceptor got a %T", req)
			}
			return next(ctx, req)
		})}
		if lent {
			opts = append(opts, rpc.LendRequests())
		}
		s, addr := start(t, func(_ context.Context, in *hyper.Message) (*testpb.Order, error) { return answer(in) }, opts...)
		behind := httptest.NewUnstartedServer(http.Handler(s))
		behind.Config.Protocols = new(http.Protocols)
		behind.Config.Protocols.SetUnencryptedHTTP2(true)
		behind.Start()
		t.Cleanup(behind.Close)
		for i, cc := range []*rpc.ClientConn{dial(t, addr), dial(t, behind.Listener.Addr().String()),
			dial(t, "http://"+addr, rpc.WithProtocol(rpc.GRPCWeb)), dial(t, "http://"+addr, rpc.WithProtocol(rpc.Connect))} {
			for _, call := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
				for i, n := range []int{0, 1, 30, 3000, 1, 30} {
					out := new(testpb.Order)
					err := cc.Invoke(ctxFor(t), unary, order("unary", n), out, call...)
					if err != nil || out.Id != "unary" || out.CreatedMs != int64(n) {
						t.Fatalf("lent %v, call %d: %v, %v", lent, i, out, err)
					}
				}
				wantCode(t, cc.Invoke(ctxFor(t), unary, order("error", 3), new(testpb.Order), call...), codes.NotFound)
				wantCode(t, cc.Invoke(ctxFor(t), unary, order("panic", 3), new(testpb.Order), call...), codes.Internal)
			}
			if i > 1 {
				continue // HTTP/1.1 has no streams in both directions
			}
			st, err := cc.NewStream(ctxFor(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, stream)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{0, 1, 30, 3000, 1} {
				out := new(testpb.Order)
				if err := st.SendMsg(order("stream", n)); err != nil {
					t.Fatal(err)
				}
				if err := st.RecvMsg(out); err != nil || out.CreatedMs != int64(n) {
					t.Fatalf("lent %v: %v, %v", lent, out, err)
				}
			}
			st.CloseSend()
			if err := st.RecvMsg(new(testpb.Order)); err != io.EOF {
				t.Fatal(err)
			}
		}
	}
}

// TestJSON: messages in JSON are decoded, too, and what is malformed is the client's mistake.
func TestJSON(t *testing.T) {
	_, addr := start(t, func(_ context.Context, in *hyper.Message) (*testpb.Order, error) { return answer(in) }, rpc.LendRequests())
	for body, want := range map[string]string{
		`{"id":"text","items":[{"sku":"a"},{}]}`: `{"id":"text","createdMs":"2"}`,
		`{}`:                                     `{}`,
		`{"id":`:                                 `"code":"invalid_argument"`,
		`{"id":7}`:                               `"code":"invalid_argument"`,
	} {
		resp, err := http.Post("http://"+addr+unary, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s, %v", body, got, err)
		}
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("got %v, want %v", err, want)
	}
}

// TestLentResponse: a client decodes a response to memory that is lent to it.
func TestLentResponse(t *testing.T) {
	_, addr := start(t, func(_ context.Context, in *hyper.Message) (*testpb.Order, error) { return order("response", 100), nil }, rpc.LendRequests())
	cc := dial(t, addr)
	for range 5 {
		var release func()
		out := orders.New()
		if err := cc.Invoke(ctxFor(t), unary, order("a", 1), out, rpc.LendResponse(&release)); err != nil {
			t.Fatal(err)
		}
		if out.Get(id).String() != "response" || out.Get(items).List().Len() != 100 {
			t.Errorf("got %v", out)
		}
		release()
		if out.Message != nil {
			t.Error("a message has content after its release")
		}
	}
}

// TestEqual: random messages, and what random edits have made of them, are decoded as by protobuf-go, or refused as by it.
func TestEqual(t *testing.T) {
	plain, err := proto.Marshal(order("seed", 5))
	if err != nil {
		t.Fatal(err)
	}
	learned, err := orders.Learn(plain, plain)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 5000 {
		b, err := proto.Marshal(order("random", r.IntN(20)))
		if err != nil {
			t.Fatal(err)
		}
		for n := r.IntN(4); n > 0 && len(b) > 0; n-- {
			i := r.IntN(len(b))
			switch r.IntN(3) {
			case 0:
				b[i] = byte(r.Uint32())
			case 1:
				b = slices.Delete(b, i, min(i+1+r.IntN(4), len(b)))
			default:
				b = b[:i+1]
			}
		}
		if !compare(t, r.IntN(2) == 0, learned, b) {
			refused++
		}
	}
	if refused == 0 || refused == 5000 {
		t.Errorf("%d of 5000 were refused", refused)
	}
}

func FuzzEqual(f *testing.F) {
	b, err := proto.Marshal(order("seed", 5))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) { compare(t, false, nil, b) })
}

// compare decodes b. It reports whether protobuf-go does.
func compare(t *testing.T, profiled bool, learned *hyper.Type, b []byte) bool {
	t.Helper()
	typ := orders
	if profiled {
		typ = learned
	}
	want := new(testpb.Order)
	err := proto.Unmarshal(b, want)
	got := typ.New()
	mine := bytes.Clone(b)
	lentErr := got.UnmarshalLent(mine)
	defer got.ReleaseLent()
	if (err == nil) != (lentErr == nil) {
		t.Fatalf("%x: %v, by protobuf-go %v", b, lentErr, err)
	}
	if err == nil && !proto.Equal(got, want) {
		t.Fatalf("%x: %v, by protobuf-go %v", b, got, want)
	}
	return err == nil
}

// TestHostile: a message that declares lengths which have not come is refused without memory for them.
func TestHostile(t *testing.T) {
	for _, b := range [][]byte{{0x0a, 0xff, 0xff, 0xff, 0x7f}, {0x32, 0xff, 0xff, 0xff, 0x7f}, {0x3a, 7, 0x0a, 0xff, 0xff, 0xff, 0x7f, 1, 2}} {
		var before, after runtime.MemStats
		m := orders.New()
		runtime.ReadMemStats(&before)
		err := m.UnmarshalLent(b)
		m.ReleaseLent()
		runtime.ReadMemStats(&after)
		if err == nil || after.TotalAlloc-before.TotalAlloc > 1<<20 {
			t.Errorf("%x: %v, %d bytes", b, err, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

// TestKept: a handler that keeps a message panics when it reads it later, and CheckLent names the message.
func TestKept(t *testing.T) {
	var message *hyper.Message
	found := make(chan rpc.KeptField, 10)
	s, addr := start(t, func(_ context.Context, in *hyper.Message) (*testpb.Order, error) {
		message = in
		return &testpb.Order{}, nil
	}, rpc.LendRequests(unary), rpc.CheckLent(1, func(k rpc.KeptField) { found <- k }))
	cc := dial(t, addr)
	if err := cc.Invoke(ctxFor(t), unary, order("kept", 3), new(testpb.Order)); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if message.Get(id).String() != "kept" { // which does no harm in a call that is looked at
		t.Errorf("the message is %v", message)
	}
	items := message.Get(items).List().Get(0).Message()
	message = nil // one inside keeps it
	for begun := time.Now(); len(found) == 0; runtime.GC() {
		if time.Since(begun) > 20*time.Second {
			t.Fatal("nothing was found")
		}
	}
	if k := <-found; k.Method != unary || k.Name != "tarn.jsonpb.test.Order" {
		t.Errorf("found %v", k)
	}
	runtime.KeepAlive(items)

	s, addr = start(t, func(_ context.Context, in *hyper.Message) (*testpb.Order, error) {
		message = in
		return &testpb.Order{}, nil
	}, rpc.LendRequests(unary), rpc.CheckLent(0, nil))
	if err := dial(t, addr).Invoke(ctxFor(t), unary, order("kept", 3), new(testpb.Order)); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if message.Message != nil {
		t.Error("a message has content after its handler has returned")
	}
}
