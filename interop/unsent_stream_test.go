package interop

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// TestSendOnUnsentStream: a connection ends while the HEADERS of a client-streaming call are queued behind a write that the
// network does not take. Tarn's client ends the call with UNAVAILABLE.
//
// grpc-go's client (1.84) makes the call on a second connection, as gRPC permits for one of which nothing was sent, but not before
// RecvMsg. Send returns io.EOF and keeps its message: such a stream has no status, which withRetry takes for OK. A caller
// must not send after io.EOF. RecvMsg then repeats what was kept, with the end of the requests, and the call ends with OK
// although the server, here grpc-go's, has received two of three messages. In one run of a hundred or less its reader sees the end of
// the connection before its writer does, and the call ends with UNAVAILABLE. When this test fails because grpc-go's Send
// returns nil, nothing of Tarn is concerned.
func TestSendOnUnsentStream(t *testing.T) {
	type end struct {
		code codes.Code
		sum  int32
	}
	for _, c := range []struct {
		name string
		dial func(*testing.T, *stuckDialer) (grpc.ClientConnInterface, io.Closer)
		ends []end
	}{
		{"tarn", func(t *testing.T, d *stuckDialer) (grpc.ClientConnInterface, io.Closer) {
			cc, err := rpc.NewClient("passthrough:///x", rpc.WithPool(tarntest.NewPool(t)),
				rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithContextDialer(d.dial), rpc.WithStatsHandler(d))
			if err != nil {
				t.Fatal(err)
			}
			return cc, cc
		}, []end{{codes.Unavailable, 0}}},
		{"grpc-go", func(t *testing.T, d *stuckDialer) (grpc.ClientConnInterface, io.Closer) {
			cc, err := grpc.NewClient("passthrough:///x",
				grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(d.dial), grpc.WithStatsHandler(d))
			if err != nil {
				t.Fatal(err)
			}
			return cc, cc
		}, []end{{codes.OK, 2}, {codes.Unavailable, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lis, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			srv := grpc.NewServer()
			testpb.RegisterTestServiceServer(srv, summing{})
			go srv.Serve(lis)
			defer srv.Stop()
			d := &stuckDialer{addr: lis.Addr().String(), stuck: make(chan struct{}), fail: make(chan struct{}), ended: make(chan struct{})}
			cc, closer := c.dial(t, d)
			defer closer.Close()
			client := testpb.NewTestServiceClient(cc)
			if _, err := client.EmptyCall(t.Context(), &testpb.Empty{}); err != nil {
				t.Fatal(err)
			}

			d.stick()
			var others sync.WaitGroup
			others.Go(func() { // its write is the one that the network does not take
				_, _ = client.EmptyCall(t.Context(), &testpb.Empty{})
			})
			defer others.Wait()
			<-d.stuck
			s, err := client.StreamingInputCall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			one := &testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: []byte{1}}}
			if err := s.Send(one); err != nil {
				t.Fatal(err)
			}
			close(d.fail)
			<-d.ended
			if err := s.Send(one); err != io.EOF {
				t.Errorf("second Send: %v, want io.EOF", err)
			}
			out, err := s.CloseAndRecv()
			if !slices.Contains(c.ends, end{status.Code(err), out.GetAggregatedPayloadSize()}) {
				t.Errorf("%d bytes, %v; want one of %v", out.GetAggregatedPayloadSize(), err, c.ends)
			}
		})
	}
}

// summing answers with the number of bytes received.
type summing struct {
	testpb.UnimplementedTestServiceServer
}

func (summing) EmptyCall(context.Context, *testpb.Empty) (*testpb.Empty, error) {
	return &testpb.Empty{}, nil
}

func (summing) StreamingInputCall(s testpb.TestService_StreamingInputCallServer) error {
	n := 0
	for {
		in, err := s.Recv()
		if err == io.EOF {
			return s.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(n)})
		}
		if err != nil {
			return err
		}
		n += len(in.Payload.Body)
	}
}

// stuckDialer dials addr. After stick, the next write of the first connection waits for fail and fails.
type stuckDialer struct {
	addr  string
	stuck chan struct{} // closed: that write waits
	fail  chan struct{}
	ended chan struct{} // closed: the client has ended the first connection and its streams

	mu    sync.Mutex
	first *stuckConn
	over  bool
}

type stuckConn struct {
	net.Conn
	d *stuckDialer

	mu     sync.Mutex
	sticks bool
	once   sync.Once
}

func (d *stuckDialer) dial(ctx context.Context, _ string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", d.addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first != nil {
		return nc, nil
	}
	d.first = &stuckConn{Conn: nc, d: d}
	return d.first, nil
}

func (d *stuckDialer) stick() {
	d.first.mu.Lock()
	d.first.sticks = true
	d.first.mu.Unlock()
}

func (c *stuckConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	sticks := c.sticks
	c.mu.Unlock()
	if !sticks {
		return c.Conn.Write(b)
	}
	c.once.Do(func() { close(c.d.stuck) })
	<-c.d.fail
	c.Conn.Close()
	return 0, errors.New("the network is gone")
}

// TagRPC is for stats.Handler.
func (d *stuckDialer) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC is for stats.Handler.
func (d *stuckDialer) HandleRPC(context.Context, stats.RPCStats) {}

// TagConn is for stats.Handler.
func (d *stuckDialer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn notes the end of the first connection.
func (d *stuckDialer) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.over = true
		close(d.ended)
	}
}
