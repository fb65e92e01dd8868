package interop

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// TestReplayOnBrokenConnection: a server refuses a call with GOAWAY, the client repeats it on a second connection,
// and that connection breaks after the repeated call's stream was opened and before its message is written. Tarn's
// client ends the call with UNAVAILABLE.
//
// grpc-go's client (1.84) ends it with io.EOF: csAttempt.sendMsg returns io.EOF for "RecvMsg has the status", and
// retryLocked, which replays sendMsg inside of RecvMsg, returns it to the caller as RecvMsg's own error. RecvMsg of a
// stream uses io.EOF for a call that ended with OK, so that a streaming call looks successful. The server here is
// x/net's framer: with grpc-go's client no code of Tarn takes part. When this test fails
// because grpc-go returns UNAVAILABLE, TestFaults no longer needs to allow io.EOF.
func TestReplayOnBrokenConnection(t *testing.T) {
	calls := []struct {
		name string
		call func(context.Context, testpb.TestServiceClient) error
	}{{"unary", unaryCall}, {"server_streaming", serverStreamingCall}}
	for _, c := range calls {
		t.Run("tarn/"+c.name, func(t *testing.T) {
			p := newBreakingPeer(t)
			cc, err := rpc.NewClient("passthrough:///x", rpc.WithPool(tarntest.NewPool(t)),
				rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithContextDialer(p.dial), rpc.WithStatsHandler(p))
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			if err := c.call(t.Context(), testpb.NewTestServiceClient(cc)); status.Code(err) != codes.Unavailable {
				t.Errorf("%v, want UNAVAILABLE", err)
			}
			p.checkRepeated()
		})
		t.Run("grpc-go/"+c.name, func(t *testing.T) {
			p := newBreakingPeer(t)
			cc, err := grpc.NewClient("passthrough:///x",
				grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(p.dial), grpc.WithStatsHandler(p))
			if err != nil {
				t.Fatal(err)
			}
			defer cc.Close()
			if err := c.call(t.Context(), testpb.NewTestServiceClient(cc)); err != io.EOF {
				t.Errorf("%v, want io.EOF", err)
			}
			p.checkRepeated()
		})
	}
}

func unaryCall(ctx context.Context, tc testpb.TestServiceClient) error {
	_, err := tc.EmptyCall(ctx, &testpb.Empty{})
	return err
}

func serverStreamingCall(ctx context.Context, tc testpb.TestServiceClient) error {
	s, err := tc.StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{})
	if err != nil {
		return err
	}
	_, err = s.Recv()
	return err
}

// breakingPeer is a server whose first connection refuses its first call with GOAWAY and whose second breaks when
// the client's statistics report the headers of the second attempt, which is before its message is sent.
type breakingPeer struct {
	t        *testing.T
	lis      net.Listener
	repeated chan struct{} // closed: the second attempt's headers are sent
	ended    chan struct{} // closed: the client has ended the second connection and its streams

	mu       sync.Mutex
	conns    int // that the client's statistics have named
	attempts int
}

// connNumber is the key of a connection's number, from 1, in the context of its statistics.
type connNumber struct{}

func newBreakingPeer(t *testing.T) *breakingPeer {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &breakingPeer{t: t, lis: lis, repeated: make(chan struct{}), ended: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(p.serve)
	t.Cleanup(func() {
		lis.Close()
		serving.Wait()
	})
	return p
}

func (p *breakingPeer) dial(ctx context.Context, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", p.lis.Addr().String())
}

// serve takes the first two connections; later ones are closed at once.
func (p *breakingPeer) serve() {
	for n := 0; ; n++ {
		nc, err := p.lis.Accept()
		if err != nil {
			return
		}
		switch n {
		case 0:
			p.refuse(nc)
		case 1:
			p.hangUp(nc)
		}
		nc.Close()
	}
}

// greet reads the client's preface and sends the server's settings.
func greet(nc net.Conn) (*http2.Framer, error) {
	fr := http2.NewFramer(nc, nc)
	if err := fr.WriteSettings(); err != nil {
		return nil, err
	}
	_, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface)))
	return fr, err
}

// refuse answers a whole request with a GOAWAY that excludes it and reads until the client closes.
func (p *breakingPeer) refuse(nc net.Conn) {
	fr, err := greet(nc)
	for err == nil {
		var f http2.Frame
		if f, err = fr.ReadFrame(); err != nil {
			break
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = fr.WriteSettingsAck()
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				err = fr.WriteGoAway(0, http2.ErrCodeNo, nil)
			}
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		p.t.Logf("first connection: %v", err) // a reset by the client, which closes with bytes unread
	}
}

// hangUp returns when the second attempt has sent its headers, or the test is over.
func (p *breakingPeer) hangUp(nc net.Conn) {
	if _, err := greet(nc); err != nil {
		p.t.Errorf("second connection: %v", err)
		return
	}
	select {
	case <-p.repeated:
	case <-p.t.Context().Done():
	}
}

// TagRPC is for stats.Handler.
func (p *breakingPeer) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC keeps the second attempt between its headers and its message until its connection has ended.
func (p *breakingPeer) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutHeader); !ok {
		return
	}
	p.mu.Lock()
	p.attempts++
	n := p.attempts
	p.mu.Unlock()
	if n != 2 {
		return
	}
	close(p.repeated)
	select {
	case <-p.ended:
	case <-p.t.Context().Done():
	}
}

// TagConn numbers the connections.
func (p *breakingPeer) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns++
	return context.WithValue(ctx, connNumber{}, p.conns)
}

// HandleConn notes the end of the second connection. Both clients report it after its streams have ended.
func (p *breakingPeer) HandleConn(ctx context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok && ctx.Value(connNumber{}) == 2 {
		close(p.ended)
	}
}

// checkRepeated reports a call that was not attempted twice.
func (p *breakingPeer) checkRepeated() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attempts != 2 {
		p.t.Errorf("%d attempts, want 2", p.attempts)
	}
}
