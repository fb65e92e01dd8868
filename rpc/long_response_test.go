package rpc_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	logpb "google.golang.org/grpc/binarylog/grpc_binarylog_v1"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// TestResponseBeyondTheClientsLimit: a header, a trailer and a status that are longer than what the client announced are not
// sent. The call ends with INTERNAL, which names the limit, on client and server, and the connection lives.
func TestResponseBeyondTheClientsLimit(t *testing.T) {
	long := metadata.Pairs("x", strings.Repeat("y", 8<<10))
	ended := make(chan error, 1) // what the handler was told
	told := func(err error) error { ended <- err; return err }
	var clients sync.Map // by address
	called := func(ctx context.Context) {
		p, _ := peer.FromContext(ctx)
		clients.Store(p.Addr.String(), nil)
	}
	svc := &testService{
		unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			called(ctx)
			switch string(in.GetPayload().GetBody()) {
			case "header":
				return &pb.SimpleResponse{}, grpc.SetHeader(ctx, long)
			case "header, and an error":
				grpc.SetHeader(ctx, long)
				return nil, status.Error(codes.NotFound, "gone")
			case "header sent":
				return &pb.SimpleResponse{}, told(grpc.SendHeader(ctx, long))
			case "trailer":
				grpc.SetTrailer(ctx, long)
			case "trailer, and an error":
				grpc.SetTrailer(ctx, long)
				return nil, status.Error(codes.NotFound, "gone")
			case "message":
				return nil, status.Error(codes.NotFound, strings.Repeat("y", 8<<10))
			}
			return &pb.SimpleResponse{}, nil
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			called(s.Context())
			in, err := s.Recv()
			if err != nil {
				return err
			}
			if string(in.GetPayload().GetBody()) == "header" {
				s.SetHeader(long)
				told(s.Send(&pb.StreamingOutputCallResponse{}))
				return nil // the call fails all the same
			}
			if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
				return err
			}
			s.SetTrailer(long)
			return nil
		},
	}
	_, addr := startTarn(t, svc)
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithMaxHeaderListSize(4<<10)))
	beyond := func(what string, err error) {
		t.Helper()
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "the client takes 4096") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, what := range []string{"header", "header, and an error", "header sent", "trailer", "trailer, and an error", "message"} {
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(what)}})
		beyond(what, err)
		if what == "header sent" {
			beyond("SendHeader", <-ended)
		}
		if was := "the status was NotFound"; (what == "trailer, and an error" || what == "message") && !strings.Contains(err.Error(), was) {
			t.Errorf("%s: %v, which does not say that %s", what, err, was)
		}
	}
	for _, what := range []string{"header", "trailer"} {
		s, err := c.FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(what)}}); err != nil {
			t.Fatal(err)
		}
		if what == "trailer" {
			if _, err := s.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		_, err = s.Recv()
		beyond("stream, "+what, err)
		if what == "header" {
			beyond("Send", <-ended)
		}
	}
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
		t.Error(err)
	}
	n := 0
	clients.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestMaxHeaderListSizeOfClients: a client does not take more than it announced, either.
func TestMaxHeaderListSizeOfClients(t *testing.T) {
	addr := rawServer(t, func(p *rawPeer, id uint32) {
		p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true,
			BlockFragment: p.block(":status", "200", "content-type", "application/grpc", "grpc-status", "0", "x", strings.Repeat("y", 8<<10))})
	})
	for _, c := range []struct {
		limit uint32
		want  codes.Code
	}{{16 << 10, codes.OK}, {4 << 10, codes.Internal}} {
		s, err := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithMaxHeaderListSize(c.limit))).FullDuplexCall(ctxFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Recv(); err == io.EOF {
			err = nil
		}
		if status.Code(err) != c.want {
			t.Errorf("a limit of %d: %v", c.limit, err)
		}
	}
}

// endEvents are what a stats handler receives: the errors with which calls end, and the trailers that were sent.
type endEvents struct {
	errs     chan error
	trailers chan metadata.MD
}

func (*endEvents) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*endEvents) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*endEvents) HandleConn(context.Context, stats.ConnStats)                       {}

func (e *endEvents) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.OutTrailer:
		e.trailers <- s.Trailer
	case *stats.End:
		e.errs <- s.Error
	}
}

// TestWhoSeesAReplacedStatus: stats handlers receive the status that was sent, an interceptor and the binary log the
// handler's.
func TestWhoSeesAReplacedStatus(t *testing.T) {
	long := metadata.Pairs("x", strings.Repeat("y", 8<<10))
	result := func(body string) error {
		if body == "fails" {
			return status.Error(codes.NotFound, "gone")
		}
		return nil
	}
	svc := &testService{
		unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			grpc.SetTrailer(ctx, long)
			return &pb.SimpleResponse{}, result(string(in.GetPayload().GetBody()))
		},
		output: func(in *pb.StreamingOutputCallRequest, s pb.TestService_StreamingOutputCallServer) error {
			s.SetTrailer(long)
			return result(string(in.GetPayload().GetBody()))
		},
	}
	told := &endEvents{make(chan error, 1), make(chan metadata.MD, 1)}
	sink := &logSink{}
	log, err := rpc.NewCallLog("*", sink)
	if err != nil {
		t.Fatal(err)
	}
	_, addr := startTarn(t, svc, rpc.StatsHandler(told), rpc.BinaryLog(log))
	c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithMaxHeaderListSize(4<<10)))
	for _, x := range []struct {
		body string
		code codes.Code // of the handler
	}{{"succeeds", codes.OK}, {"fails", codes.NotFound}} {
		for kind, call := range map[string]func() error{
			"unary": func() error {
				_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(x.body)}})
				return err
			},
			"stream": func() error {
				s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(x.body)}})
				if err == nil {
					_, err = s.Recv()
				}
				return err
			},
		} {
			sent := call()
			if got := <-told.errs; got == nil || status.Code(got) != codes.Internal || status.Convert(got).Message() != status.Convert(sent).Message() {
				t.Errorf("%s that %s: End has %v, and the client got %v", kind, x.body, got, sent)
			}
			if got := <-told.trailers; len(got) > 0 {
				t.Errorf("%s that %s: OutTrailer has %d keys", kind, x.body, len(got))
			}
			var logged []codes.Code
			sink.mu.Lock()
			for _, e := range sink.entries {
				if e.Type == logpb.GrpcLogEntry_EVENT_TYPE_SERVER_TRAILER {
					logged = append(logged, codes.Code(e.GetTrailer().GetStatusCode()))
				}
			}
			sink.entries = nil
			sink.mu.Unlock()
			if len(logged) != 1 || logged[0] != x.code {
				t.Errorf("%s that %s: the binary log has %v", kind, x.body, logged)
			}
		}
	}
}

// TestRefusalBeyondTheClientsLimit: the answer to a request for an unknown method, whose message quotes the request, is not
// longer than what the client takes, either.
func TestRefusalBeyondTheClientsLimit(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	cc := dialTarn(t, addr, rpc.WithMaxHeaderListSize(4<<10))
	err := cc.Invoke(ctxFor(t), "/"+strings.Repeat("y", 8<<10)+"/Call", &pb.SimpleRequest{}, &pb.SimpleResponse{})
	if status.Code(err) != codes.Internal || !strings.HasSuffix(err.Error(), "the client takes 4096; the status was Unimplemented") {
		t.Error(err)
	}
}

// TestLongListsForPeersThatNameNoLimit: to a peer that has announced no limit of header lists, a string that takes more than
// 64 KiB as encoded and a list of more than 144 KiB are not sent: some such peers end the connection. The call ends with
// INTERNAL, and the connection stays open.
func TestLongListsForPeersThatNameNoLimit(t *testing.T) {
	lists := []struct {
		name   string
		values []string
		why    string // nothing: it is sent
	}{
		{"Huffman makes it short enough", []string{strings.Repeat("0", 100_000)}, ""},
		{"short enough", []string{strings.Repeat("\\", 64<<10)}, ""},
		{"a long string", []string{strings.Repeat("\\", 64<<10+1)}, "a string of 65537 bytes"},
		{"a long list", []string{strings.Repeat("0", 50_000), strings.Repeat("0", 50_000), strings.Repeat("0", 50_000)}, "sent at most 147456"},
	}
	t.Run("client", func(t *testing.T) {
		var conns, sent atomic.Int32
		var last atomic.Pointer[rawPeer]
		addr := rawServerOf(t, func(p *rawPeer, h *http2.MetaHeadersFrame) {
			if last.Swap(p) != p {
				conns.Add(1)
			}
			sent.Add(1)
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: h.StreamID, EndHeaders: true, EndStream: true,
				BlockFragment: p.block(":status", "200", "content-type", "application/grpc", "grpc-status", "5")})
		})
		c := pb.NewTestServiceClient(dialTarn(t, addr))
		for _, l := range lists {
			before := sent.Load()
			_, err := c.EmptyCall(metadata.NewOutgoingContext(ctxFor(t), metadata.MD{"x": l.values}), &pb.Empty{})
			if l.why == "" && (status.Code(err) != codes.NotFound || sent.Load() == before) ||
				l.why != "" && (status.Code(err) != codes.Internal || !strings.Contains(err.Error(), l.why) || sent.Load() != before) {
				t.Errorf("%s: %v", l.name, err)
			}
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
	t.Run("server", func(t *testing.T) {
		svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			grpc.SetHeader(ctx, metadata.MD{"x": lists[in.ResponseSize].values})
			return &pb.SimpleResponse{}, nil
		}}
		_, addr := startTarn(t, svc)
		p := rawClient(t, addr)
		for i, l := range lists {
			id := p.open(false)
			body, err := proto.Marshal(&pb.SimpleRequest{ResponseSize: int32(i)})
			if err != nil {
				t.Fatal(err)
			}
			p.fr.WriteData(id, true, prefixed(0, body))
			h := p.answer(id)
			why, code := "", "0"
			if l.why != "" {
				why, code = l.why, "13"
			}
			if h["grpc-status"] != code || !strings.Contains(h["grpc-message"], why) {
				t.Errorf("%s: status %s, %q", l.name, h["grpc-status"], h["grpc-message"])
			}
		}
	})
}

// TestUnannouncedHeaderListSize: grpc-go announces no limit and takes 16 MiB; the options say how much it is sent.
func TestUnannouncedHeaderListSize(t *testing.T) {
	size := func(value int) uint32 { return uint32(value + len("x") + 32) }
	const long, longer = 1 << 20, 1<<20 + 1<<10
	want := func(t *testing.T, call func(value int) error) {
		if err := call(long); err != nil {
			t.Errorf("below: %v", err)
		}
		if err := call(longer); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "such peers are sent at most 1049") {
			t.Errorf("beyond: %v", err)
		}
	}
	value := func(n int) metadata.MD { return metadata.Pairs("x", strings.Repeat("\\", n)) }
	t.Run("client", func(t *testing.T) {
		_, addr := startGRPC(t, &testService{})
		c := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithUnannouncedHeaderListSize(size(long)+512)))
		want(t, func(n int) error {
			_, err := c.EmptyCall(metadata.NewOutgoingContext(ctxFor(t), value(n)), &pb.Empty{})
			return err
		})
	})
	t.Run("server", func(t *testing.T) {
		svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			return &pb.SimpleResponse{}, grpc.SetHeader(ctx, value(int(in.ResponseSize)))
		}}
		_, addr := startTarn(t, svc, rpc.UnannouncedHeaderListSize(size(long)+512))
		c := pb.NewTestServiceClient(dialGRPC(t, addr))
		want(t, func(n int) error {
			_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{ResponseSize: int32(n)})
			return err
		})
	})
}
