// Package channelz serves gRPC's channelz (gRFC A14) for clients and servers of package rpc:
//
//	var listed rpc.ChannelzRegistry
//	s := rpc.NewServer(rpc.Channelz(&listed))
//	channelz.Register(s, &listed)
//	cc, err := rpc.NewClient(target, rpc.WithChannelz(&listed), ...)
//
// The service also shows grpc-go's own clients and servers in the program: an import of this
// package makes grpc-go collect their data. Sockets have no socket options, no local certificates and no count of keepalives
// sent. Calls over HTTP/1.1 and through [rpc.Server.ServeHTTP] are counted with their server and have no sockets. The client
// that grpclb makes for its load balancer is not below the client that uses it. A call that ends before it is sent, such as
// one whose request is longer than the limit, is counted with its client and not with a subchannel.
//
// grpc-go's own channelz service does not show package rpc; a server on which it is registered logs that.
package channelz

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/internal/entity"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Register registers a service on s that shows the entities in z and grpc-go's own.
func Register(s grpc.ServiceRegistrar, z *rpc.ChannelzRegistry) {
	service.RegisterChannelzServiceToServer(Registrar(s, z))
}

// Registrar registers services on s, and Register's in place of grpc-go's channelz. It is for grpc-go's
// package admin:
//
//	cleanup, err := admin.Register(channelz.Registrar(s, &listed))
func Registrar(s grpc.ServiceRegistrar, z *rpc.ChannelzRegistry) grpc.ServiceRegistrar {
	return registrar{s, z}
}

// registrar replaces grpc-go's channelz service by the one for both.
type registrar struct {
	grpc.ServiceRegistrar
	z *rpc.ChannelzRegistry
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if theirs, ok := impl.(pb.ChannelzServer); ok && desc.ServiceName == pb.Channelz_ServiceDesc.ServiceName {
		impl = server{ours: r.z.Entities(), theirs: theirs}
	}
	r.ServiceRegistrar.RegisterService(desc, impl)
}

// server shows grpc-go's entities, whose identifiers come first, and those of package rpc.
type server struct {
	pb.UnimplementedChannelzServer
	ours   *entity.Registry
	theirs pb.ChannelzServer
}

// defaultPage is the largest number of results when a request sets none.
const defaultPage = 100

func pageOf(max int64) int {
	if max <= 0 || max > defaultPage {
		return defaultPage
	}
	return int(max)
}

// GetTopChannels implements ChannelzServer.
func (s server) GetTopChannels(ctx context.Context, r *pb.GetTopChannelsRequest) (*pb.GetTopChannelsResponse, error) {
	n := pageOf(r.MaxResults)
	out := &pb.GetTopChannelsResponse{End: true}
	if r.StartChannelId < entity.FirstID {
		var err error
		if out, err = s.theirs.GetTopChannels(ctx, &pb.GetTopChannelsRequest{StartChannelId: r.StartChannelId, MaxResults: int64(n)}); err != nil || !out.End {
			return out, err
		}
	}
	ours, end := s.ours.Channels(r.StartChannelId, n-len(out.Channel))
	for _, c := range ours {
		out.Channel = append(out.Channel, channelOf(c))
	}
	out.End = end
	return out, nil
}

// GetServers implements ChannelzServer.
func (s server) GetServers(ctx context.Context, r *pb.GetServersRequest) (*pb.GetServersResponse, error) {
	n := pageOf(r.MaxResults)
	out := &pb.GetServersResponse{End: true}
	if r.StartServerId < entity.FirstID {
		var err error
		if out, err = s.theirs.GetServers(ctx, &pb.GetServersRequest{StartServerId: r.StartServerId, MaxResults: int64(n)}); err != nil || !out.End {
			return out, err
		}
	}
	ours, end := s.ours.Servers(r.StartServerId, n-len(out.Server))
	for _, x := range ours {
		out.Server = append(out.Server, serverOf(x))
	}
	out.End = end
	return out, nil
}

func notFound(what string, id int64) error {
	return status.Errorf(codes.NotFound, "requested %s %d not found", what, id)
}

// GetServer implements ChannelzServer.
func (s server) GetServer(ctx context.Context, r *pb.GetServerRequest) (*pb.GetServerResponse, error) {
	if r.ServerId < entity.FirstID {
		return s.theirs.GetServer(ctx, r)
	}
	x := s.ours.Server(r.ServerId)
	if x == nil {
		return nil, notFound("server", r.ServerId)
	}
	return &pb.GetServerResponse{Server: serverOf(x)}, nil
}

// GetServerSockets implements ChannelzServer.
func (s server) GetServerSockets(ctx context.Context, r *pb.GetServerSocketsRequest) (*pb.GetServerSocketsResponse, error) {
	if r.ServerId < entity.FirstID {
		return s.theirs.GetServerSockets(ctx, r)
	}
	x := s.ours.Server(r.ServerId)
	if x == nil {
		return nil, notFound("server", r.ServerId)
	}
	out := &pb.GetServerSocketsResponse{End: true}
	for _, so := range x.Sockets() {
		if so.ID < r.StartSocketId {
			continue
		}
		if len(out.SocketRef) == pageOf(r.MaxResults) {
			out.End = false
			break
		}
		out.SocketRef = append(out.SocketRef, refOf(so))
	}
	return out, nil
}

// GetChannel implements ChannelzServer.
func (s server) GetChannel(ctx context.Context, r *pb.GetChannelRequest) (*pb.GetChannelResponse, error) {
	if r.ChannelId < entity.FirstID {
		return s.theirs.GetChannel(ctx, r)
	}
	c := s.ours.Channel(r.ChannelId)
	if c == nil {
		return nil, notFound("channel", r.ChannelId)
	}
	return &pb.GetChannelResponse{Channel: channelOf(c)}, nil
}

// GetSubchannel implements ChannelzServer.
func (s server) GetSubchannel(ctx context.Context, r *pb.GetSubchannelRequest) (*pb.GetSubchannelResponse, error) {
	if r.SubchannelId < entity.FirstID {
		return s.theirs.GetSubchannel(ctx, r)
	}
	c := s.ours.Subchannel(r.SubchannelId)
	if c == nil {
		return nil, notFound("sub channel", r.SubchannelId)
	}
	out := &pb.Subchannel{Ref: subchannelRef(c), Data: dataOf(c.Target(), c.State(), &c.Calls, &c.Trace)}
	for _, so := range c.Sockets() {
		out.SocketRef = append(out.SocketRef, refOf(so))
	}
	return &pb.GetSubchannelResponse{Subchannel: out}, nil
}

// GetSocket implements ChannelzServer.
func (s server) GetSocket(ctx context.Context, r *pb.GetSocketRequest) (*pb.GetSocketResponse, error) {
	if r.SocketId < entity.FirstID {
		return s.theirs.GetSocket(ctx, r)
	}
	so := s.ours.Socket(r.SocketId)
	if so == nil {
		return nil, notFound("socket", r.SocketId)
	}
	return &pb.GetSocketResponse{Socket: socketOf(so)}, nil
}

func channelOf(c *entity.Channel) *pb.Channel {
	out := &pb.Channel{Ref: &pb.ChannelRef{ChannelId: c.ID, Name: c.Target}, Data: dataOf(c.Target, c.State(), &c.Calls, &c.Trace)}
	for _, s := range c.Subchannels() {
		out.SubchannelRef = append(out.SubchannelRef, subchannelRef(s))
	}
	return out
}

func subchannelRef(s *entity.Subchannel) *pb.SubchannelRef {
	return &pb.SubchannelRef{SubchannelId: s.ID, Name: s.Target()}
}

func serverOf(s *entity.Server) *pb.Server {
	out := &pb.Server{Ref: &pb.ServerRef{ServerId: s.ID}, Data: &pb.ServerData{CallsStarted: s.Calls.Started.Load(),
		CallsSucceeded: s.Calls.Succeeded.Load(), CallsFailed: s.Calls.Failed.Load(), LastCallStartedTimestamp: timeOf(s.Calls.Last())}}
	for _, l := range s.Listeners() {
		out.ListenSocket = append(out.ListenSocket, refOf(l))
	}
	return out
}

func refOf(s *entity.Socket) *pb.SocketRef { return &pb.SocketRef{SocketId: s.ID, Name: s.Name()} }

// timeOf is nil for an event that has not happened.
func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func dataOf(target string, s connectivity.State, calls *entity.Tally, trace *entity.Trace) *pb.ChannelData {
	created, logged, events := trace.Read()
	out := &pb.ChannelData{Target: target, State: &pb.ChannelConnectivityState{State: stateOf(s)},
		CallsStarted: calls.Started.Load(), CallsSucceeded: calls.Succeeded.Load(), CallsFailed: calls.Failed.Load(),
		LastCallStartedTimestamp: timeOf(calls.Last()),
		Trace:                    &pb.ChannelTrace{NumEventsLogged: logged, CreationTimestamp: timeOf(created)}}
	for _, e := range events {
		x := &pb.ChannelTraceEvent{Description: e.Description, Severity: pb.ChannelTraceEvent_CT_INFO, Timestamp: timeOf(e.Time)}
		if e.Subchannel != nil {
			x.ChildRef = &pb.ChannelTraceEvent_SubchannelRef{SubchannelRef: subchannelRef(e.Subchannel)}
		}
		out.Trace.Events = append(out.Trace.Events, x)
	}
	return out
}

func stateOf(s connectivity.State) pb.ChannelConnectivityState_State {
	switch s {
	case connectivity.Idle:
		return pb.ChannelConnectivityState_IDLE
	case connectivity.Connecting:
		return pb.ChannelConnectivityState_CONNECTING
	case connectivity.Ready:
		return pb.ChannelConnectivityState_READY
	case connectivity.TransientFailure:
		return pb.ChannelConnectivityState_TRANSIENT_FAILURE
	case connectivity.Shutdown:
		return pb.ChannelConnectivityState_SHUTDOWN
	}
	return pb.ChannelConnectivityState_UNKNOWN
}

func socketOf(s *entity.Socket) *pb.Socket {
	out := &pb.Socket{Ref: refOf(s), Local: addressOf(s.Local), Remote: addressOf(s.Remote), RemoteName: s.RemoteName,
		Security: securityOf(s.Auth), Data: &pb.SocketData{
			StreamsStarted: s.Streams.Started.Load(), StreamsSucceeded: s.Streams.Succeeded.Load(), StreamsFailed: s.Streams.Failed.Load(),
			MessagesSent: s.Sent.Load(), MessagesReceived: s.Received.Load(),
			LastMessageSentTimestamp: timeOf(s.LastSent()), LastMessageReceivedTimestamp: timeOf(s.LastReceived())}}
	if s.Side == entity.ClientSide {
		out.Data.LastLocalStreamCreatedTimestamp = timeOf(s.Streams.Last())
	} else {
		out.Data.LastRemoteStreamCreatedTimestamp = timeOf(s.Streams.Last())
	}
	if s.Windows != nil {
		local, remote := s.Windows()
		out.Data.LocalFlowControlWindow, out.Data.RemoteFlowControlWindow = wrapperspb.Int64(local), wrapperspb.Int64(remote)
	}
	return out
}

func addressOf(a net.Addr) *pb.Address {
	switch a := a.(type) {
	case nil:
		return nil
	case *net.TCPAddr:
		return &pb.Address{Address: &pb.Address_TcpipAddress{TcpipAddress: &pb.Address_TcpIpAddress{IpAddress: a.IP, Port: int32(a.Port)}}}
	case *net.UnixAddr:
		return &pb.Address{Address: &pb.Address_UdsAddress_{UdsAddress: &pb.Address_UdsAddress{Filename: a.String()}}}
	}
	return &pb.Address{Address: &pb.Address_OtherAddress_{OtherAddress: &pb.Address_OtherAddress{Name: a.String()}}}
}

// securityOf describes TLS as grpc-go does. For other credentials it returns the name.
func securityOf(auth credentials.AuthInfo) *pb.Security {
	switch a := auth.(type) {
	case nil:
		return nil
	case credentials.TLSInfo:
		t := &pb.Security_Tls{CipherSuite: &pb.Security_Tls_StandardName{StandardName: tls.CipherSuiteName(a.State.CipherSuite)}}
		if len(a.State.PeerCertificates) > 0 {
			t.RemoteCertificate = a.State.PeerCertificates[0].Raw
		}
		return &pb.Security{Model: &pb.Security_Tls_{Tls: t}}
	}
	if auth.AuthType() == "insecure" {
		return nil
	}
	return &pb.Security{Model: &pb.Security_Other{Other: &pb.Security_OtherSecurity{Name: auth.AuthType()}}}
}
