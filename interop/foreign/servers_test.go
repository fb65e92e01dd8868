package foreign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// client is a connection of either implementation.
type client struct {
	grpc.ClientConnInterface
	testpb.TestServiceClient
	dialled *atomic.Int64 // connections
}

// sides are the two implementations of a client; the second is what the first is compared with.
var sides = []struct {
	name string
	dial func(t testing.TB, addr string, creds credentials.TransportCredentials) client
}{
	{"tarn", func(t testing.TB, addr string, creds credentials.TransportCredentials) client {
		var dialled atomic.Int64
		cc, err := rpc.NewClient("passthrough:///"+addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(creds),
			rpc.WithConnectParams(params), rpc.WithContextDialer(dialer(&dialled)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cc.Close() })
		return client{cc, testpb.NewTestServiceClient(cc), &dialled}
	}},
	{"grpc-go", func(t testing.TB, addr string, creds credentials.TransportCredentials) client {
		var dialled atomic.Int64
		cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(creds),
			grpc.WithConnectParams(params), grpc.WithContextDialer(dialer(&dialled)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cc.Close() })
		return client{cc, testpb.NewTestServiceClient(cc), &dialled}
	}},
}

var params = grpc.ConnectParams{MinConnectTimeout: 10 * time.Second,
	Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1.5, MaxDelay: 50 * time.Millisecond}}

func dialer(count *atomic.Int64) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			count.Add(1)
		}
		return c, err
	}
}

func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func body(n int) *testpb.Payload { return &testpb.Payload{Body: bytes.Repeat([]byte("x"), n)} }

// fact is one thing that a client observes, as text that is the same whatever the client.
type fact struct {
	name string
	see  func(ctx context.Context, c client) string
}

// code describes an error whose message the client has made.
func code(err error) string {
	if errors.Is(err, io.EOF) {
		return "EOF"
	}
	return status.Code(err).String()
}

// answer describes an error whose message is the server's.
func answer(err error) string {
	st := status.Convert(err)
	return fmt.Sprintf("%v %q %v", st.Code(), st.Message(), st.Details())
}

func with(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// facts are what each client observes.
func facts() []fact {
	var all []fact
	add := func(name string, see func(ctx context.Context, c client) string) { all = append(all, fact{name, see}) }
	for _, n := range []int{0, 1, 20_000, 3 << 20, 5 << 20} {
		for _, compressed := range []bool{false, true} {
			var opts []grpc.CallOption
			if compressed {
				opts = append(opts, grpc.UseCompressor(gzip.Name))
			}
			add(fmt.Sprintf("a response of %d bytes, request compressed %v", n, compressed), func(ctx context.Context, c client) string {
				out, err := c.UnaryCall(ctx, &testpb.SimpleRequest{ResponseSize: int32(n), Payload: body(10)}, opts...)
				return fmt.Sprint(len(out.GetPayload().GetBody()), code(err))
			})
			add(fmt.Sprintf("a request of %d bytes, compressed %v", n, compressed), func(ctx context.Context, c client) string {
				_, err := c.UnaryCall(ctx, &testpb.SimpleRequest{Payload: body(n)}, opts...)
				return code(err)
			})
			add(fmt.Sprintf("three messages each way of %d bytes, requests compressed %v", n, compressed), func(ctx context.Context, c client) string {
				s, err := c.FullDuplexCall(ctx, opts...)
				if err != nil {
					return code(err)
				}
				var got []int
				for range 3 {
					if err := s.Send(&testpb.StreamingOutputCallRequest{Payload: body(n), ResponseParameters: []*testpb.ResponseParameters{{Size: int32(n)}}}); err != nil {
						break
					}
					m, err := s.Recv()
					if err != nil {
						return fmt.Sprint(got, code(err))
					}
					got = append(got, len(m.GetPayload().GetBody()))
				}
				s.CloseSend()
				_, err = s.Recv()
				return fmt.Sprint(got, code(err))
			})
		}
	}
	for n := range 17 {
		for _, message := range []string{"", "é%\n\t \u2028 x", strings.Repeat("long ", 500)} {
			in := &testpb.EchoStatus{Code: int32(n), Message: message}
			add(fmt.Sprintf("status %d %.9q of a unary call", n, message), func(ctx context.Context, c client) string {
				_, err := c.UnaryCall(ctx, &testpb.SimpleRequest{ResponseStatus: in})
				return answer(err)
			})
			if n%4 == 2 { // in the middle of a stream
				add(fmt.Sprintf("status %d %.9q of a stream", n, message), func(ctx context.Context, c client) string {
					s, err := c.FullDuplexCall(ctx)
					if err != nil {
						return code(err)
					}
					s.Send(&testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{Size: 9}}})
					m, err := s.Recv()
					if err != nil {
						return code(err)
					}
					s.Send(&testpb.StreamingOutputCallRequest{ResponseStatus: in})
					_, err = s.Recv()
					return fmt.Sprint(len(m.GetPayload().GetBody()), answer(err))
				})
			}
		}
	}
	add("details", func(ctx context.Context, c client) string {
		st, err := status.New(codes.NotFound, "not there").WithDetails(durationpb.New(time.Hour), &testpb.SimpleRequest{ResponseSize: 7})
		if err != nil {
			return err.Error()
		}
		b, err := proto.Marshal(st.Proto())
		if err != nil {
			return err.Error()
		}
		_, err = c.UnaryCall(with(ctx, "x-details-bin", string(b)), &testpb.SimpleRequest{
			ResponseStatus: &testpb.EchoStatus{Code: int32(codes.NotFound), Message: "not there"}})
		return answer(err)
	})
	add("metadata", func(ctx context.Context, c client) string {
		var header, trailer metadata.MD
		_, err := c.UnaryCall(with(ctx, "x-grpc-test-echo-initial", "one", "x-grpc-test-echo-trailing-bin", "\x00\xff\n"), &testpb.SimpleRequest{},
			grpc.Header(&header), grpc.Trailer(&trailer))
		return fmt.Sprintf("%q %q %q %v", code(err), header["x-grpc-test-echo-initial"], trailer["x-grpc-test-echo-trailing-bin"], header["content-type"])
	})
	add("trailers-only", func(ctx context.Context, c client) string {
		s, err := c.FullDuplexCall(with(ctx, "x-grpc-test-echo-trailing-bin", "\x00\xff\n"))
		if err != nil {
			return code(err)
		}
		s.CloseSend()
		header, err := s.Header()
		_, end := s.Recv()
		return fmt.Sprintf("%v %v %q %v", header["content-type"], err, s.Trailer()["x-grpc-test-echo-trailing-bin"], end)
	})
	for _, n := range []int{1000, 7000, 15_000, 30_000, 60_000} {
		for _, where := range []string{"header", "trailer"} {
			add(fmt.Sprintf("a %s of %d bytes", where, n), func(ctx context.Context, c client) string {
				var header, trailer metadata.MD
				_, err := c.UnaryCall(with(ctx, "x-"+where+"-size", strconv.Itoa(n)), &testpb.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer))
				return fmt.Sprint(code(err), len(strings.Join(metadata.Join(header, trailer)["x-big"], "")))
			})
		}
		for _, fields := range []int{1, 100} {
			if n == 15_000 { // later versions of grpcio refuse it by chance
				continue
			}
			add(fmt.Sprintf("request metadata of %d bytes in %d fields", n, fields), func(ctx context.Context, c client) string {
				md := metadata.MD{}
				for i := range fields {
					md.Append(fmt.Sprint("x-", i), strings.Repeat("v", n/fields))
				}
				_, err := c.UnaryCall(metadata.NewOutgoingContext(ctx, md), &testpb.SimpleRequest{})
				_, after := c.EmptyCall(ctx, &testpb.Empty{})
				return fmt.Sprint(code(err), " next ", code(after))
			})
		}
	}
	add("many responses", func(ctx context.Context, c client) string {
		in := &testpb.StreamingOutputCallRequest{}
		for i := range 100 {
			in.ResponseParameters = append(in.ResponseParameters, &testpb.ResponseParameters{Size: int32(i * i * 10)})
		}
		s, err := c.StreamingOutputCall(ctx, in)
		n, sum := 0, 0
		for err == nil {
			var m *testpb.StreamingOutputCallResponse
			if m, err = s.Recv(); err == nil {
				n, sum = n+1, sum+len(m.GetPayload().GetBody())
			}
		}
		return fmt.Sprint(n, sum, code(err))
	})
	add("many requests", func(ctx context.Context, c client) string {
		s, err := c.StreamingInputCall(ctx)
		if err != nil {
			return code(err)
		}
		for i := range 100 {
			if err := s.Send(&testpb.StreamingInputCallRequest{Payload: body(i * i * 10)}); err != nil {
				return code(err)
			}
		}
		out, err := s.CloseAndRecv()
		return fmt.Sprint(out.GetAggregatedPayloadSize(), code(err))
	})
	add("half duplex", func(ctx context.Context, c client) string {
		s, err := c.HalfDuplexCall(ctx)
		if err != nil {
			return code(err)
		}
		for i := range 5 {
			s.Send(&testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{Size: int32(i)}}})
		}
		s.CloseSend()
		var got []int
		for {
			m, err := s.Recv()
			if err != nil {
				return fmt.Sprint(got, code(err))
			}
			got = append(got, len(m.GetPayload().GetBody()))
		}
	})
	add("a method that is not there", func(ctx context.Context, c client) string {
		return code(c.Invoke(ctx, "/grpc.testing.TestService/UnimplementedCall", &testpb.Empty{}, &testpb.Empty{}))
	})
	add("a service that is not there", func(ctx context.Context, c client) string {
		return code(c.Invoke(ctx, "/nobody.Here/Call", &testpb.Empty{}, &testpb.Empty{}))
	})
	add("a deadline", func(ctx context.Context, c client) string {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := c.UnaryCall(with(short, "x-hang", "1"), &testpb.SimpleRequest{})
		return code(err) + none(ctx, c)
	})
	add("a deadline during a large request", func(ctx context.Context, c client) string {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		s, err := c.StreamingInputCall(with(short, "x-hang", "1"))
		for err == nil {
			err = s.Send(&testpb.StreamingInputCallRequest{Payload: body(1 << 20)})
		}
		if errors.Is(err, io.EOF) {
			_, err = s.CloseAndRecv()
		}
		return code(err) + none(ctx, c)
	})
	add("a deadline while responses come", func(ctx context.Context, c client) string {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		in := &testpb.StreamingOutputCallRequest{}
		for range 1000 {
			in.ResponseParameters = append(in.ResponseParameters, &testpb.ResponseParameters{Size: 10, IntervalUs: 20_000})
		}
		s, err := c.StreamingOutputCall(short, in)
		for err == nil {
			_, err = s.Recv()
		}
		return code(err)
	})
	add("cancelled calls", func(ctx context.Context, c client) string {
		var wg sync.WaitGroup
		codes := make([]string, 100)
		for i := range codes {
			wg.Go(func() {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
				_, err := c.UnaryCall(with(ctx, "x-hang", "1"), &testpb.SimpleRequest{Payload: body(i * 1000)})
				codes[i] = code(err)
			})
		}
		wg.Wait()
		return fmt.Sprint(codes, none(ctx, c))
	})
	return all
}

// none waits until the server says that no handler waits for its call's end any more.
func none(ctx context.Context, c client) string {
	for {
		var header, trailer metadata.MD
		if _, err := c.EmptyCall(ctx, &testpb.Empty{}, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
			return " left: " + code(err)
		}
		if n := strings.Join(metadata.Join(header, trailer)["x-hanging"], ","); n == "0" { // a trailer; of tonic's server a header
			return " ended"
		}
	}
}

// TestServers makes the same calls to a server in another language with Tarn's client and with grpc-go's, which must
// observe the same.
func TestServers(t *testing.T) {
	for _, l := range languages() {
		for _, tls := range []bool{false, true} {
			name, o, creds := l.name+"/plain", options{}, insecure.NewCredentials()
			if tls {
				name = l.name + "/tls"
				cert, key, roots := testcert.Files(t)
				o, creds = options{Cert: cert, Key: key, Gzip: true}, credentials.NewClientTLSFromCert(roots, testcert.Name)
			}
			t.Run(name, func(t *testing.T) {
				p := start(t, l, o)
				var clients []client
				for _, s := range sides {
					clients = append(clients, s.dial(t, p.addr(), creds))
				}
				for _, f := range facts() {
					var seen []string
					for _, c := range clients {
						ctx, cancel := context.WithTimeout(bounded(t), 20*time.Second)
						seen = append(seen, f.see(ctx, c))
						cancel()
					}
					if l.name == "tonic" && strings.HasPrefix(f.name, "a deadline") && strings.HasSuffix(seen[0], " ended") && strings.HasSuffix(seen[1], " ended") {
						continue // its server answers at the deadline with a status of its own, which may be first
					}
					if seen[0] != seen[1] {
						t.Errorf("%s:\n\t%s: %.1000s\n\t%s: %.1000s", f.name, sides[0].name, seen[0], sides[1].name, seen[1])
					}
				}
				for i, c := range clients {
					t.Logf("%s: %d connections", sides[i].name, c.dialled.Load())
				}
			})
		}
	}
}
