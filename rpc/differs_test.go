package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// Tests of docs/reference/rpc.md, "What differs from grpc-go", that no other file has.

// A handler that returns at its call's deadline is too late: the stream has been reset.
func TestNoStatusAfterTheDeadline(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		svc := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		_, addr := startTarn(t, svc)
		p := rawClient(t, addr)
		for range 20 {
			id := p.open(false, "grpc-timeout", "5m")
			p.fr.WriteData(id, true, prefixed(0, nil))
			if a := p.answer(id); a["rst"] == "" || a["grpc-status"] != "" {
				t.Fatalf("a call whose deadline has passed is answered with %v", a)
			}
		}
	})
}

// TestEmptyStreamHasAHeader: a stream that ends well without a message is answered with a header and trailers; grpc-go's answer is
// trailers-only, which gRPC has for calls that fail at once.
func TestEmptyStreamHasAHeader(t *testing.T) {
	_, ours := startTarn(t, &testService{})
	_, theirs := startGRPC(t, &testService{})
	for addr, want := range map[string]int{ours: 2, theirs: 1} {
		p := rawClient(t, addr)
		p.fr.WriteData(p.open(false, ":path", "/grpc.testing.TestService/FullDuplexCall"), true, nil)
		lists := 0
		for over := false; !over; {
			f, err := p.fr.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if h, ok := f.(*http2.MetaHeadersFrame); ok {
				lists++
				over = h.StreamEnded()
			}
		}
		if lists != want {
			t.Errorf("%d header lists, want %d", lists, want)
		}
	}
}

// TestSendMsgWaitsForTheWindow: SendMsg of a message that is longer than the peer's window returns when the peer has received enough of it.
// grpc-go's returns at once, if nothing is queued before the message.
func TestSendMsgWaitsForTheWindow(t *testing.T) {
	const length = 32 << 20
	sent := make(chan struct{}, 1)
	svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		err := s.Send(&pb.StreamingOutputCallResponse{Payload: payload(length)})
		sent <- struct{}{}
		return err
	}}
	receive := func(t *testing.T, c pb.TestServiceClient, waiting func()) {
		s, err := c.FullDuplexCall(ctxFor(t), grpc.MaxCallRecvMsgSize(2*length))
		if err != nil {
			t.Fatal(err)
		}
		waiting()
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Fatal(err)
		}
	}
	inBubble(t, svc, nil, func(t *testing.T, c pb.TestServiceClient) {
		receive(t, c, func() {
			synctest.Wait()
			if len(sent) > 0 {
				t.Error("SendMsg returned before the client had received anything")
			}
		})
		<-sent
	})
	_, addr := startGRPC(t, svc)
	receive(t, pb.NewTestServiceClient(dialTarn(t, addr)), func() { <-sent })
}

// TestUnaryHandlerStartsAtTheEnd: a whole request does not start its handler before the client has ended its side.
func TestUnaryHandlerStartsAtTheEnd(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		var started atomic.Int32
		_, addr := startTarn(t, &testService{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			started.Add(1)
			return &pb.SimpleResponse{}, nil
		}})
		p := rawClient(t, addr)
		ids := make([]uint32, 100)
		for i := range ids {
			ids[i] = p.open(false)
			p.fr.WriteData(ids[i], false, prefixed(0, nil))
		}
		if !p.roundTrip() {
			t.Fatal("the server has ended the connection")
		}
		if n := started.Load(); n != 0 {
			t.Errorf("%d handlers of 100 have started", n)
		}
		for _, id := range ids {
			p.fr.WriteData(id, true, nil)
			if a := p.answer(id); a["grpc-status"] != "0" {
				t.Fatalf("the answer is %v", a)
			}
		}
	})
}

// Both ends offer the registered compressors, each once, among those that the page lists and those of
// AcceptCompressors. It runs itself in another process, in which all that the page lists are registered.
func TestAcceptedCompressors(t *testing.T) {
	const child = "TARN_COMPRESSORS_CHILD"
	usual := "gzip"
	if os.Getenv(child) != "" {
		usual = "gzip,zstd,snappy,s2,deflate,lz4,br"
		for name := range strings.SplitSeq(usual, ",") {
			encoding.RegisterCompressor(named{encoding.GetCompressor("gzip"), name})
		}
	} else {
		runChild(t, "TestAcceptedCompressors", child+"=1")
	}
	encoding.RegisterCompressor(named{encoding.GetCompressor("gzip"), "differs"})
	further := []string{"gzip", "differs", "nobody"}
	for _, c := range []struct {
		opts   []rpc.DialOption
		server []rpc.ServerOption
		want   string
	}{
		{nil, nil, usual},
		{[]rpc.DialOption{rpc.WithAcceptCompressors(further...)}, []rpc.ServerOption{rpc.AcceptCompressors(further...)}, usual + ",differs"},
	} {
		_, at := startTarn(t, &testService{}, c.server...)
		p := rawClient(t, at)
		if got := p.answer(p.open(true, "grpc-encoding", "nobody"))["grpc-accept-encoding"]; got != c.want {
			t.Errorf("the server accepts %q, not %q", got, c.want)
		}
		offered := make(chan string, 1)
		addr := rawServerOf(t, func(p *rawPeer, h *http2.MetaHeadersFrame) {
			for _, f := range h.Fields {
				if f.Name == "grpc-accept-encoding" {
					offered <- f.Value
				}
			}
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: h.StreamID, EndHeaders: true, EndStream: true,
				BlockFragment: p.block(":status", "200", "content-type", "application/grpc", "grpc-status", "5")})
		})
		pb.NewTestServiceClient(dialTarn(t, addr, c.opts...)).EmptyCall(ctxFor(t), &pb.Empty{})
		if got := strings.ReplaceAll(<-offered, " ", ""); got != c.want {
			t.Errorf("offered %q, not %q", got, c.want)
		}
	}
}

// named is a compressor under another name.
type named struct {
	encoding.Compressor
	name string
}

func (n named) Name() string { return n.name }

// writes is a connection that records the argument of each Write.
type writes struct {
	net.Conn
	mu  sync.Mutex
	all [][]byte
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.all = append(w.all, bytes.Clone(p))
	w.mu.Unlock()
	return w.Conn.Write(p)
}

// A call without client streaming sends its header together with the request and the end of its side, in one
// Write.
func TestHeaderLeavesWithTheRequest(t *testing.T) {
	faultnet.NeedsTCP(t, "the writes on a socket are counted")
	var nc *writes
	_, addr := startTarn(t, &testService{})
	cc := dialTarn(t, addr, rpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		nc = &writes{Conn: c}
		return nc, err
	}))
	if _, err := pb.NewTestServiceClient(cc).EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	s, err := cc.NewStream(ctxFor(t), &grpc.StreamDesc{ServerStreams: true}, "/grpc.testing.TestService/StreamingOutputCall")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(&pb.StreamingOutputCallRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(new(pb.StreamingOutputCallResponse)); err != io.EOF {
		t.Fatal(err)
	}
	nc.mu.Lock()
	defer nc.mu.Unlock()
	for i, p := range nc.all {
		p = bytes.TrimPrefix(p, []byte(http2.ClientPreface))
		fr := http2.NewFramer(nil, bytes.NewReader(p))
		header, end := false, false
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				break
			}
			if f.Header().StreamID != 3 {
				continue
			}
			switch f := f.(type) {
			case *http2.HeadersFrame:
				header = true
			case *http2.DataFrame:
				end = end || f.StreamEnded()
			}
		}
		if header || end {
			if !header || !end {
				t.Errorf("Write %d has the header: %v, the end: %v", i, header, end)
			}
			return
		}
	}
	t.Error("no Write has the stream's header")
}

// Both ends announce in their first SETTINGS what docs/reference/rpc.md names as the defaults.
func TestAnnouncedSettings(t *testing.T) {
	first := func(p *rawPeer) map[http2.SettingID]uint32 {
		for {
			f, err := p.fr.ReadFrame()
			if err != nil {
				t.Error(err)
				return nil
			}
			if s, ok := f.(*http2.SettingsFrame); ok && !s.IsAck() {
				all := map[http2.SettingID]uint32{}
				s.ForeachSetting(func(s http2.Setting) error { all[s.ID] = s.Val; return nil })
				return all
			}
		}
	}
	check := func(side string, got, want map[http2.SettingID]uint32) {
		for id, v := range want {
			if got[id] != v {
				t.Errorf("a %s announces %v of %d, want %d", side, id, got[id], v)
			}
		}
	}
	both := map[http2.SettingID]uint32{http2.SettingMaxHeaderListSize: 64 << 10, http2.SettingMaxFrameSize: 1 << 20, http2.SettingInitialWindowSize: 256 << 10}
	_, addr := startTarn(t, &testService{})
	got := first(rawClient(t, addr))
	check("server", got, both)
	check("server", got, map[http2.SettingID]uint32{http2.SettingMaxConcurrentStreams: 4096})

	lis := listen(t)
	defer lis.Close()
	dialTarn(t, lis.Addr().String()).Connect()
	nc, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	p := newRawPeer(t, nc)
	if _, err := io.ReadFull(nc, make([]byte, len(http2.ClientPreface))); err != nil {
		t.Fatal(err)
	}
	check("client", first(p), both)
}

// TestMetadataKeysWithCapitals: keys are sent in lower case, also those of a map that the application has made itself. grpc-go
// refuses these.
func TestMetadataKeysWithCapitals(t *testing.T) {
	got := make(chan []string, 1)
	_, addr := startTarn(t, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		got <- md["key"]
		return &pb.SimpleResponse{}, nil
	}})
	ctx := metadata.NewOutgoingContext(ctxFor(t), metadata.MD{"Key": {"v"}})
	_, err := pb.NewTestServiceClient(dialGRPC(t, addr)).UnaryCall(ctx, &pb.SimpleRequest{})
	wantCode(t, err, codes.Internal)
	for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
		if _, err := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithProtocol(p))).UnaryCall(ctx, &pb.SimpleRequest{}); err != nil {
			t.Errorf("%v: %v", p, err)
		} else if v := <-got; len(v) != 1 || v[0] != "v" {
			t.Errorf("%v: the server got %q", p, v)
		}
	}
}

// TestMetadataWithBlanks: blanks around values, which RFC 9113 forbids and clients of gRPC send, arrive as with grpc-go, both ways.
func TestMetadataWithBlanks(t *testing.T) {
	const value = " a b "
	echo := &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return &pb.SimpleResponse{}, errors.Join(grpc.SetHeader(ctx, metadata.MD{"h": md["key"]}), grpc.SetTrailer(ctx, metadata.MD{"t": md["key"]}))
	}}
	_, tarn := startTarn(t, echo)
	_, others := startGRPC(t, echo)
	for server, addr := range map[string]string{"Tarn": tarn, "grpc-go": others} {
		for client, cc := range map[string]grpc.ClientConnInterface{"Tarn": dialTarn(t, addr), "grpc-go": dialGRPC(t, addr)} {
			var h, tr metadata.MD
			ctx := metadata.AppendToOutgoingContext(ctxFor(t), "key", value, "key", " ")
			_, err := pb.NewTestServiceClient(cc).UnaryCall(ctx, &pb.SimpleRequest{}, grpc.Header(&h), grpc.Trailer(&tr))
			if want := []string{value, " "}; err != nil || !slices.Equal(h["h"], want) || !slices.Equal(tr["t"], want) {
				t.Errorf("%s at %s: %v, %q, %q", client, server, err, h["h"], tr["t"])
			}
		}
	}
}
