package rpc_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
)

// beforeOpen are credentials that run a function once, between the pick of a connection and the opening of a stream on it.
type beforeOpen struct{ run func() }

func (b beforeOpen) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	b.run()
	return nil, nil
}

func (beforeOpen) RequireTransportSecurity() bool { return false }

// connEnds reports ends of connections.
type connEnds chan struct{}

func (connEnds) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connEnds) HandleRPC(context.Context, stats.RPCStats)                         {}
func (connEnds) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c connEnds) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		c <- struct{}{}
	}
}

// A call whose connection ends before its stream is opened has sent nothing: it is made on another connection, whatever ended
// the first one.
func TestConnectionEndsBeforeOpen(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(p *rawPeer)
	}{
		{"FIN", func(p *rawPeer) { p.nc.Close() }},
		{"GOAWAY and FIN", func(p *rawPeer) {
			p.fr.WriteGoAway(1, http2.ErrCodeNo, nil)
			p.nc.Close()
		}},
		{"RST", func(p *rawPeer) {
			if tcp, ok := p.nc.(*net.TCPConn); ok { // not on every network of TARN_NET
				tcp.SetLinger(0)
			}
			p.nc.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			peers := make(chan *rawPeer, 2)
			addr := rawServer(t, func(p *rawPeer, id uint32) {
				p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true,
					BlockFragment: p.block(":status", "200", "content-type", "application/grpc")})
				p.fr.WriteData(id, false, make([]byte, 5))
				p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true, BlockFragment: p.block("grpc-status", "0")})
				peers <- p // this goroutine does not write to it any more
			})
			ends := make(connEnds, 2)
			client := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithStatsHandler(ends)))
			if _, err := client.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
				t.Fatal(err)
			}
			var once sync.Once
			_, err := client.EmptyCall(ctxFor(t), &pb.Empty{}, grpc.PerRPCCredentials(beforeOpen{func() {
				once.Do(func() {
					c.end(<-peers)
					<-ends
				})
			}}))
			if err != nil {
				t.Error(err)
			}
		})
	}
}
