package channelz_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/channelz"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	stockservice "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// service is what the tests call.
type service struct {
	testpb.UnimplementedTestServiceServer
}

func (service) UnaryCall(_ context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if c := in.GetResponseStatus().GetCode(); c != 0 {
		return nil, status.Error(codes.Code(c), "as asked")
	}
	return &testpb.SimpleResponse{Payload: &testpb.Payload{Body: make([]byte, in.ResponseSize)}}, nil
}

func (service) FullDuplexCall(s testpb.TestService_FullDuplexCallServer) error {
	for {
		if _, err := s.Recv(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.Send(&testpb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func serve(t *testing.T, s interface {
	Serve(net.Listener) error
	Stop()
}) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

// start runs a listed server of the test service and of channelz.
func start(t *testing.T, z *rpc.ChannelzRegistry) (*rpc.Server, string) {
	t.Helper()
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.Channelz(z))
	testpb.RegisterTestServiceServer(s, service{})
	channelz.Register(s, z)
	return s, serve(t, s)
}

func dial(t *testing.T, addr string, z *rpc.ChannelzRegistry) *rpc.ClientConn {
	t.Helper()
	cc, err := rpc.NewClient(addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithChannelz(z))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// until calls f until it returns "" and fails with its last result.
func until(t *testing.T, f func() string) {
	t.Helper()
	var got string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if got = f(); got == "" {
			return
		}
	}
	t.Fatal(got)
}

// use makes calls: five that succeed, of which one streams three messages each way, and two that fail.
func use(t *testing.T, cc grpc.ClientConnInterface) {
	t.Helper()
	c := testpb.NewTestServiceClient(cc)
	for range 4 {
		if _, err := c.UnaryCall(bounded(t), &testpb.SimpleRequest{ResponseSize: 10}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		_, err := c.UnaryCall(bounded(t), &testpb.SimpleRequest{ResponseStatus: &testpb.EchoStatus{Code: 5}})
		if status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
	}
	s, err := c.FullDuplexCall(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Send(&testpb.StreamingOutputCallRequest{ResponseParameters: []*testpb.ResponseParameters{{Size: 5}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Fatal(err)
	}
}

// TestEntities compares a client, its subchannel and connection, a server, its listener and its connection
// with the calls counted on each.
func TestEntities(t *testing.T) {
	var near, far rpc.ChannelzRegistry
	_, addr := start(t, &far)
	cc := dial(t, addr, &near)
	_, window := start(t, &near) // shows the client
	use(t, cc)

	look := pb.NewChannelzClient(dial(t, window, nil))
	top, err := look.GetTopChannels(bounded(t), &pb.GetTopChannelsRequest{})
	if err != nil || !top.End {
		t.Fatal(top, err)
	}
	ours := slices.IndexFunc(top.Channel, func(c *pb.Channel) bool { return c.Data.Target == cc.CanonicalTarget() })
	if ours < 0 {
		t.Fatalf("the client is not among %v", top.Channel)
	}
	ch := top.Channel[ours]
	if d := ch.Data; d.CallsStarted != 7 || d.CallsSucceeded != 5 || d.CallsFailed != 2 || d.State.State != pb.ChannelConnectivityState_READY ||
		d.LastCallStartedTimestamp == nil || d.Trace.CreationTimestamp == nil || len(d.Trace.Events) < 3 {
		t.Errorf("the client's data are %v", d)
	}
	if got, err := look.GetChannel(bounded(t), &pb.GetChannelRequest{ChannelId: ch.Ref.ChannelId}); err != nil || got.Channel.Data.CallsStarted != 7 {
		t.Errorf("GetChannel: %v, %v", got, err)
	}
	if len(ch.SubchannelRef) != 1 {
		t.Fatalf("subchannels %v", ch.SubchannelRef)
	}
	sub, err := look.GetSubchannel(bounded(t), &pb.GetSubchannelRequest{SubchannelId: ch.SubchannelRef[0].SubchannelId})
	if err != nil {
		t.Fatal(err)
	}
	if d := sub.Subchannel.Data; d.CallsStarted != 7 || d.CallsSucceeded != 5 || d.CallsFailed != 2 || d.Target != addr || d.State.State != pb.ChannelConnectivityState_READY {
		t.Errorf("the subchannel's data are %v", d)
	}
	if len(sub.Subchannel.SocketRef) != 1 {
		t.Fatalf("sockets %v", sub.Subchannel.SocketRef)
	}
	sock, err := look.GetSocket(bounded(t), &pb.GetSocketRequest{SocketId: sub.Subchannel.SocketRef[0].SocketId})
	if err != nil {
		t.Fatal(err)
	}
	if s := sock.Socket; s.Data.StreamsStarted != 7 || s.Data.StreamsSucceeded != 7 || s.Data.MessagesSent != 9 || s.Data.MessagesReceived != 7 ||
		s.Data.LastLocalStreamCreatedTimestamp == nil || s.Data.LastRemoteStreamCreatedTimestamp != nil || s.Data.LastMessageSentTimestamp == nil ||
		s.Data.LocalFlowControlWindow.GetValue() < 1 || s.Data.RemoteFlowControlWindow.GetValue() < 1 ||
		fmt.Sprintf("127.0.0.1:%d", s.Remote.GetTcpipAddress().GetPort()) != addr || s.Security != nil {
		t.Errorf("the socket is %v", s)
	}

	other := pb.NewChannelzClient(dial(t, addr, nil)) // its calls count too, from here on
	until(t, func() string {
		all, err := other.GetServers(bounded(t), &pb.GetServersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		srv := all.Server[len(all.Server)-1]
		if srv.Data.CallsFailed != 2 || srv.Data.CallsSucceeded < 5 || len(srv.ListenSocket) != 1 || srv.ListenSocket[0].Name != addr {
			return fmt.Sprintf("the server is %v", srv)
		}
		socks, err := other.GetServerSockets(bounded(t), &pb.GetServerSocketsRequest{ServerId: srv.Ref.ServerId})
		if err != nil || !socks.End {
			t.Fatal(socks, err)
		}
		if len(socks.SocketRef) != 2 {
			return fmt.Sprintf("the server's sockets are %v", socks.SocketRef)
		}
		first, err := other.GetSocket(bounded(t), &pb.GetSocketRequest{SocketId: socks.SocketRef[0].SocketId})
		if err != nil {
			t.Fatal(err)
		}
		if d := first.Socket.Data; d.StreamsStarted != 7 || d.StreamsSucceeded != 7 || d.MessagesReceived != 9 || d.MessagesSent != 7 || d.LastRemoteStreamCreatedTimestamp == nil {
			return fmt.Sprintf("the server's socket is %v", first.Socket)
		}
		return ""
	})

	// Entities that have ended are not listed any more.
	cc.Close()
	until(t, func() string {
		if _, err := look.GetChannel(bounded(t), &pb.GetChannelRequest{ChannelId: ch.Ref.ChannelId}); status.Code(err) != codes.NotFound {
			return fmt.Sprintf("a closed client: %v", err)
		}
		if _, err := look.GetSubchannel(bounded(t), &pb.GetSubchannelRequest{SubchannelId: ch.SubchannelRef[0].SubchannelId}); status.Code(err) != codes.NotFound {
			return fmt.Sprintf("its subchannel: %v", err)
		}
		if _, err := look.GetSocket(bounded(t), &pb.GetSocketRequest{SocketId: sock.Socket.Ref.SocketId}); status.Code(err) != codes.NotFound {
			return fmt.Sprintf("its socket: %v", err)
		}
		return ""
	})
}

// TestTrace: a client's trace has what its resolver and its balancers do, and a subchannel that was deleted can be looked up by
// the event that names it, with its own trace, as in grpc-go.
func TestTrace(t *testing.T) {
	var z rpc.ChannelzRegistry
	_, first := start(t, &z)
	_, second := start(t, &z)
	r := manual.NewBuilderWithScheme("whatever")
	r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: first}}})
	cc, err := rpc.NewClient("whatever:///x", rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithResolvers(r), rpc.WithChannelz(&z))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	use(t, cc)

	look := pb.NewChannelzClient(dial(t, first, nil))
	top, err := look.GetTopChannels(bounded(t), &pb.GetTopChannelsRequest{StartChannelId: 1 << 32})
	if err != nil || len(top.Channel) != 1 || len(top.Channel[0].SubchannelRef) != 1 {
		t.Fatal(top, err)
	}
	ch, sub := top.Channel[0].Ref.ChannelId, top.Channel[0].SubchannelRef[0].SubchannelId
	trace := func() []*pb.ChannelTraceEvent {
		t.Helper()
		c, err := look.GetChannel(bounded(t), &pb.GetChannelRequest{ChannelId: ch})
		if err != nil {
			t.Fatal(err)
		}
		return c.Channel.Data.Trace.Events
	}
	logged := func(what string) {
		t.Helper()
		until(t, func() string {
			events := trace()
			if slices.ContainsFunc(events, func(e *pb.ChannelTraceEvent) bool { return strings.Contains(e.Description, what) }) {
				return ""
			}
			return fmt.Sprintf("the client's trace has no %q: %v", what, events)
		})
	}
	logged("resolver returned new addresses")
	logged(`Channel switches to new LB policy "pick_first"`)
	config := r.CC().ParseServiceConfig(`{"loadBalancingPolicy":"round_robin"}`)
	r.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: second}}, ServiceConfig: config})
	logged("service config updated")
	logged(`Channel switches to new LB policy "round_robin"`)
	logged(fmt.Sprintf("Subchannel(id:%d) deleted", sub))

	s, err := look.GetSubchannel(bounded(t), &pb.GetSubchannelRequest{SubchannelId: sub})
	if err != nil {
		t.Fatalf("a deleted subchannel that the client's trace names: %v", err)
	}
	events := s.Subchannel.Data.Trace.Events
	if last := events[len(events)-1].Description; last != "Subchannel deleted" {
		t.Errorf("the deleted subchannel's trace ends with %q", last)
	}
	if !slices.ContainsFunc(events, func(e *pb.ChannelTraceEvent) bool {
		return e.Description == fmt.Sprintf("Subchannel picks a new address %q to connect", first)
	}) {
		t.Errorf("the subchannel's trace does not say that it connected to %s: %v", first, events)
	}

	r.UpdateState(resolver.State{ServiceConfig: config})
	logged("resolver returned an empty address list")
	r.CC().ReportError(errors.New("no such name"))
	logged("no such name")
	r.UpdateState(resolver.State{ServiceConfig: r.CC().ParseServiceConfig("{")})
	logged("Resolver returned a service config that cannot be used")

	// Newer events displace those that name the subchannel.
	for range 30 {
		r.CC().ReportError(errors.New("again"))
	}
	if _, err := look.GetSubchannel(bounded(t), &pb.GetSubchannelRequest{SubchannelId: sub}); status.Code(err) != codes.NotFound {
		t.Errorf("a deleted subchannel that no event names: %v, want NOT_FOUND", err)
	}
}

// The same service shows grpc-go's own entities, page by page.
func TestBesideGRPC(t *testing.T) {
	var z rpc.ChannelzRegistry
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.Channelz(&z))
	stockservice.RegisterChannelzServiceToServer(channelz.Registrar(s, &z)) // package admin does this
	addr := serve(t, s)
	stock, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	for range 3 {
		dial(t, addr, &z)
	}
	look := pb.NewChannelzClient(stock)
	var targets []string
	var ids []int64
	for next := int64(0); ; {
		r, err := look.GetTopChannels(bounded(t), &pb.GetTopChannelsRequest{StartChannelId: next, MaxResults: 2})
		if err != nil || len(r.Channel) > 2 || len(r.Channel) == 0 && !r.End {
			t.Fatal(r, err)
		}
		for _, c := range r.Channel {
			targets, ids = append(targets, c.Data.Target), append(ids, c.Ref.ChannelId)
			next = c.Ref.ChannelId + 1
		}
		if r.End {
			break
		}
	}
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("the identifiers are %v", ids)
	}
	stocks, ours := 0, 0
	for i, target := range targets {
		switch {
		case !strings.HasSuffix(target, addr):
		case ids[i] >= 1<<32:
			ours++
		default:
			stocks++
		}
	}
	if stocks != 1 || ours != 3 {
		t.Errorf("%d of 1 clients of grpc-go and %d of 3 of Tarn among %q", stocks, ours, targets)
	}
	one, err := look.GetChannel(bounded(t), &pb.GetChannelRequest{ChannelId: ids[0]})
	if err != nil || one.Channel.Ref.ChannelId != ids[0] {
		t.Errorf("grpc-go's channel %d: %v, %v", ids[0], one, err)
	}
	for what, err := range map[string]error{
		"GetServer":        second(look.GetServer(bounded(t), &pb.GetServerRequest{ServerId: 1 << 40})),
		"GetServerSockets": second(look.GetServerSockets(bounded(t), &pb.GetServerSocketsRequest{ServerId: 1 << 40})),
		"GetSocket":        second(look.GetSocket(bounded(t), &pb.GetSocketRequest{SocketId: 1 << 40})),
		"of grpc-go":       second(look.GetServer(bounded(t), &pb.GetServerRequest{ServerId: 1 << 30})),
	} {
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s of nothing: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Settings without effect are reported in grpc-go's log: its own channelz service on a server of rpc, and the
// environment's filter for binary logs. The log's level comes from the environment, which is read when a
// process starts.
func TestWarnings(t *testing.T) {
	const child = "TARN_WARNINGS"
	if os.Getenv(child) != "" {
		grpc.EnableTracing = true
		s := rpc.NewServer()
		stockservice.RegisterChannelzServiceToServer(s)
		cc, err := rpc.NewClient("localhost:1", rpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		cc.Close()
		s.Stop()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWarnings$")
	cmd.Env = append(os.Environ(), child+"=1", "GRPC_BINARY_LOG_FILTER=*", "GRPC_GO_LOG_SEVERITY_LEVEL=warning")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"grpc-go's channelz service was registered", "a binary log with WithBinaryLog", "a binary log with BinaryLog", "grpc.EnableTracing"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the log does not say %q:\n%s", want, out)
		}
	}
}

// Sockets of TLS connections have security data, on both sides.
func TestSecurity(t *testing.T) {
	var z rpc.ChannelzRegistry
	cert, roots := testcert.New(t)
	s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.Channelz(&z), rpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	testpb.RegisterTestServiceServer(s, service{})
	addr := serve(t, s)
	cc, err := rpc.NewClient(addr, rpc.WithPool(tarntest.NewPool(t)), rpc.WithTransportCredentials(credentials.NewClientTLSFromCert(roots, "")), rpc.WithChannelz(&z))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	if _, err := testpb.NewTestServiceClient(cc).UnaryCall(bounded(t), &testpb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	_, window := start(t, &z)
	look := pb.NewChannelzClient(dial(t, window, nil))
	tls := map[string]bool{}
	for id := int64(1 << 32); id < 1<<32+20; id++ {
		r, err := look.GetSocket(bounded(t), &pb.GetSocketRequest{SocketId: id})
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if sec := r.Socket.Security.GetTls(); sec != nil {
			if sec.GetStandardName() == "" {
				t.Errorf("no cipher suite in %v", sec)
			}
			tls[fmt.Sprintf("with a peer's certificate: %v", len(sec.RemoteCertificate) > 0)] = true
		}
	}
	if len(tls) != 2 {
		t.Errorf("sockets with TLS: %v, want the client's and the server's", tls)
	}
}
