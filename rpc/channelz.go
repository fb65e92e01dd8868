package rpc

import (
	"net"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// ChannelzRegistry lists clients and servers, their connections and what was counted on them, for
// gRPC's channelz service (gRFC A14), which package rpc/channelz serves. A client is listed
// from NewClient with [WithChannelz] to Close, a server from NewServer with [Channelz] to
// Stop. The zero ChannelzRegistry is ready. It is safe for concurrent use.
//
// Counting costs a clock reading and some atomic additions a call. Without a registry nothing is counted.
type ChannelzRegistry struct{ reg entity.Registry }

// Entities returns the data for package rpc/channelz.
func (z *ChannelzRegistry) Entities() *entity.Registry {
	if z == nil {
		return nil
	}
	return &z.reg
}

// WithChannelz lists the client in z.
func WithChannelz(z *ChannelzRegistry) DialOption {
	return dialOption(func(o *dialOptions) { o.channelz = z })
}

// Channelz lists the server in z. Calls that come over HTTP/1.1 or through
// [Server.ServeHTTP] are counted; their connections are not listed.
func Channelz(z *ChannelzRegistry) ServerOption {
	return serverOption(func(o *serverOptions) { o.channelz = z })
}

// entityConn describes a connection for channelz.
func entityConn(p *peer.Peer, name string, c *h2.Conn) entity.Conn {
	return entity.Conn{Local: p.LocalAddr, Remote: p.Addr, RemoteName: name, Auth: p.AuthInfo, Windows: c.Windows}
}

// began counts an opened stream.
func (c *clientConn) began() {
	c.entity.Begin()
	c.sub.Entity().Begin()
}

// counted counts the end of a's stream. A stream that the server ended with a trailer has succeeded, whatever
// its status.
func (c *clientConn) counted(a *grpcAttempt, err error) {
	if c.entity == nil {
		return
	}
	a.mu.Lock()
	how := entity.Failure
	if a.trailer != nil {
		how = entity.Success
	}
	a.mu.Unlock()
	c.entity.End(how)
	c.sub.Entity().End(entity.OutcomeOf(err))
}

// addListener lists a listening socket.
func (s *Server) addListener(lis net.Listener) *entity.Socket {
	return s.entity.AddListener(lis.Addr())
}

// warnOfChannelz warns that grpc-go's channelz service does not show package rpc's clients and servers.
func warnOfChannelz(desc *grpc.ServiceDesc, impl any) {
	if desc.ServiceName != "grpc.channelz.v1.Channelz" {
		return
	}
	if grpcgo.IsChannelzService(impl) {
		logger.Warningf("grpc-go's channelz service was registered: it shows grpc-go's own clients and servers and none of package rpc's. Package rpc/channelz has a service that shows both (Register, and Registrar for package admin)")
	}
}
