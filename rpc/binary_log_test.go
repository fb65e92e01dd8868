package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/binarylog"
	logpb "google.golang.org/grpc/binarylog/grpc_binarylog_v1"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// logSink keeps entries.
type logSink struct {
	mu      sync.Mutex
	entries []*logpb.GrpcLogEntry
}

func (s *logSink) Write(e *logpb.GrpcLogEntry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, proto.Clone(e).(*logpb.GrpcLogEntry))
	return nil
}

func (s *logSink) Close() error { return nil }

// take returns what one side has logged since the last call, one line an entry, without the parts that differ
// from run to run.
func (s *logSink) take(side logpb.GrpcLogEntry_Logger) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	s.entries = slices.DeleteFunc(s.entries, func(e *logpb.GrpcLogEntry) bool {
		if e.Logger != side {
			return false
		}
		e = proto.Clone(e).(*logpb.GrpcLogEntry)
		line := fmt.Sprintf("%d of %v", e.SequenceIdWithinCall, e.Timestamp.AsTime().Year() > 2000)
		e.Timestamp, e.CallId, e.SequenceIdWithinCall = nil, 0, 0
		if e.Peer != nil {
			line += " from " + e.Peer.Type.String() + " " + e.Peer.Address
			e.Peer = nil
		}
		for _, md := range []*logpb.Metadata{e.GetClientHeader().GetMetadata(), e.GetServerHeader().GetMetadata(), e.GetTrailer().GetMetadata()} {
			slices.SortFunc(md.GetEntry(), func(a, b *logpb.MetadataEntry) int { return strings.Compare(a.Key, b.Key) })
		}
		if h := e.GetClientHeader(); h != nil {
			line += fmt.Sprintf(" timeout %v", h.Timeout != nil)
			h.Timeout, h.Authority = nil, h.Authority[:strings.IndexByte(h.Authority, ':')]
		}
		out = append(out, line+" "+strings.ReplaceAll(prototext.MarshalOptions{Multiline: false}.Format(e), "  ", " "))
		return true
	})
	return out
}

// loggedService is the service whose calls are logged.
func loggedService(waiting chan<- struct{}) *testService {
	md := func(ctx context.Context) error {
		if err := grpc.SetHeader(ctx, metadata.Pairs("head", "1", "bin-bin", "\x00\xff")); err != nil {
			return err
		}
		return grpc.SetTrailer(ctx, metadata.Pairs("tail", "2"))
	}
	return &testService{
		unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			switch in.GetResponseStatus().GetMessage() {
			case "plain":
				return nil, status.Error(codes.NotFound, "nothing here")
			case "wait":
				waiting <- struct{}{}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if err := md(ctx); err != nil {
				return nil, err
			}
			if c := in.GetResponseStatus().GetCode(); c != 0 {
				st, err := status.New(codes.Code(c), "as asked").WithDetails(&pb.EchoStatus{Code: 7})
				if err != nil {
					return nil, err
				}
				return nil, st.Err()
			}
			return &pb.SimpleResponse{Payload: in.Payload}, nil
		},
		duplex: func(s pb.TestService_FullDuplexCallServer) error {
			if err := md(s.Context()); err != nil {
				return err
			}
			return echoStream(s)
		},
	}
}

// loggedCalls are the calls that are compared. Each returns the code that it ends with.
var loggedCalls = []struct {
	name string
	side []logpb.GrpcLogEntry_Logger // whose entries do not depend on time
	call func(ctx context.Context, c pb.TestServiceClient, waiting <-chan struct{}) error
	code codes.Code
}{
	{"unary", bothSides, func(ctx context.Context, c pb.TestServiceClient, _ <-chan struct{}) error {
		ctx = metadata.AppendToOutgoingContext(ctx, "k", "v", "k", "w", "b-bin", "\x01")
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(30)})
		return err
	}, codes.OK},
	{"unary with a status and details", bothSides, func(ctx context.Context, c pb.TestServiceClient, _ <-chan struct{}) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: 9}})
		return err
	}, codes.FailedPrecondition},
	{"unary with a status alone", bothSides, func(ctx context.Context, c pb.TestServiceClient, _ <-chan struct{}) error {
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Message: "plain"}})
		return err
	}, codes.NotFound},
	{"both sides stream", bothSides, func(ctx context.Context, c pb.TestServiceClient, _ <-chan struct{}) error {
		s, err := c.FullDuplexCall(ctx)
		for n := 1; err == nil && n < 4; n++ {
			if err = s.Send(&pb.StreamingOutputCallRequest{Payload: payload(n * 10)}); err == nil {
				_, err = s.Recv()
			}
		}
		if err == nil {
			err = s.CloseSend()
		}
		if err == nil {
			_, err = s.Recv()
		}
		if err == io.EOF {
			return nil
		}
		return err
	}, codes.OK},
	{"the server streams", bothSides, func(ctx context.Context, c pb.TestServiceClient, _ <-chan struct{}) error {
		s, err := c.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 3}, {Size: 4}}})
		for err == nil {
			_, err = s.Recv()
		}
		if err == io.EOF {
			return nil
		}
		return err
	}, codes.OK},
	{"the client streams", bothSides, func(ctx context.Context, c pb.TestServiceClient, _ <-chan struct{}) error {
		s, err := c.StreamingInputCall(ctx)
		for n := 0; err == nil && n < 3; n++ {
			err = s.Send(&pb.StreamingInputCallRequest{Payload: payload(5)})
		}
		if err == nil {
			_, err = s.CloseAndRecv()
		}
		return err
	}, codes.OK},
	{"not logged", bothSides, func(ctx context.Context, c pb.TestServiceClient, _ <-chan struct{}) error {
		_, err := c.EmptyCall(ctx, &pb.Empty{})
		return err
	}, codes.OK},
	// From here on servers may log after the client has continued.
	{"unary, cancelled", clientSide, func(ctx context.Context, c pb.TestServiceClient, waiting <-chan struct{}) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			<-waiting
			cancel()
		}()
		_, err := c.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Message: "wait"}})
		return err
	}, codes.Canceled},
	{"a stream, cancelled", clientSide, func(ctx context.Context, c pb.TestServiceClient, _ <-chan struct{}) error {
		ctx, cancel := context.WithCancel(ctx)
		s, err := c.FullDuplexCall(ctx)
		if err == nil {
			err = s.Send(&pb.StreamingOutputCallRequest{Payload: payload(1)})
		}
		if err == nil {
			_, err = s.Recv()
		}
		cancel()
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}, codes.Canceled},
}

var (
	bothSides  = []logpb.GrpcLogEntry_Logger{logpb.GrpcLogEntry_LOGGER_CLIENT, logpb.GrpcLogEntry_LOGGER_SERVER}
	clientSide = bothSides[:1]
)

// The log of a call has the same entries as grpc-go's. grpc-go reads its filter when a process starts, so
// each filter has its own process.
func TestBinaryLogAsGRPC(t *testing.T) {
	const variable = "GRPC_BINARY_LOG_FILTER"
	filter := os.Getenv(variable)
	if filter == "" {
		for _, filter := range []string{"*,-grpc.testing.TestService/EmptyCall", "grpc.testing.TestService/*{h:20;m:12},-grpc.testing.TestService/EmptyCall",
			"*{h},-grpc.testing.TestService/EmptyCall", "grpc.testing.TestService/UnaryCall{m:5},grpc.testing.TestService/FullDuplexCall"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestBinaryLogAsGRPC$", "-test.v")
			cmd.Env = append(os.Environ(), variable+"="+filter)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestBinaryLogAsGRPC") {
				t.Errorf("%s: %v\n%s", filter, err, out)
			}
		}
		return
	}
	theirs, ours := &logSink{}, &logSink{}
	binarylog.SetSink(theirs)
	log, err := rpc.NewCallLog(filter, ours)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	stockServer, stockAddr := startGRPC(t, loggedService(waiting))
	tarnServer, tarnAddr := startTarn(t, loggedService(waiting), rpc.BinaryLog(log))
	stock := pb.NewTestServiceClient(dialGRPC(t, stockAddr))
	tarn := pb.NewTestServiceClient(dialTarn(t, tarnAddr, rpc.WithBinaryLog(log)))
	total := 0
	for _, c := range loggedCalls {
		wantCode(t, c.call(ctxFor(t), stock, waiting), c.code)
		wantCode(t, c.call(ctxFor(t), tarn, waiting), c.code)
		awaitEnd := func(side logpb.GrpcLogEntry_Logger) { // a server logs the end possibly after the client has continued
			for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
				if theirs.ended(side) && ours.ended(side) {
					return
				}
			}
			t.Errorf("%s: the %v's log does not end", c.name, side)
		}
		for _, side := range c.side {
			awaitEnd(side)
			got, want := ours.take(side), theirs.take(side)
			if len(c.side) == 1 && len(got) > 0 && len(want) > 0 {
				// In grpc-go the goroutine that is first decides on the last entry.
				if last := got[len(got)-1]; !strings.Contains(last, fmt.Sprintf("status_code:%d", c.code)) {
					t.Errorf("%s: the last entry is %s", c.name, last)
				}
				got, want = got[:len(got)-1], want[:len(want)-1]
			}
			total += len(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: the %v logs\n%s\nand in grpc-go\n%s", c.name, side, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	if total < 20 {
		t.Errorf("only %d entries were compared", total)
	}
	stockServer.Stop()
	tarnServer.Stop()
}

// ended reports whether each call of a side has its last entry.
func (s *logSink) ended(side logpb.GrpcLogEntry_Logger) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := map[uint64]bool{}
	for _, e := range s.entries {
		if e.Logger == side {
			open[e.CallId] = e.Type != logpb.GrpcLogEntry_EVENT_TYPE_SERVER_TRAILER && e.Type != logpb.GrpcLogEntry_EVENT_TYPE_CANCEL
		}
	}
	for _, o := range open {
		if o {
			return false
		}
	}
	return true
}

// Filters that grpc-go refuses are refused, and the error says why.
func TestBinaryLogFilters(t *testing.T) {
	for _, bad := range []string{",", "x", "-*", "-s/*", "-s/m{h}", "s/m,s/m", "-s/m,s/m", "s/*,s/*", "*,*", "*{}", "*{x}", "*{h;}", "*{;m}", "*{hm}",
		"*{h:}", "*{h:-1}", "*{h:99999999999999999999}", "s/m{m:1;h:1}", "s/", "/m", "s/m,"} {
		if _, err := rpc.NewCallLog(bad, &logSink{}); !errors.Is(err, rpc.ErrBinaryLog) {
			t.Errorf("filter %q: %v", bad, err)
		}
	}
	for _, good := range []string{"", "*", "*{h:0}", "s/*", "a.b/c/m", "s/m{h:1;m:2},s/*,*{m}", "-s/m"} {
		if _, err := rpc.NewCallLog(good, &logSink{}); err != nil {
			t.Errorf("filter %q: %v", good, err)
		}
	}
	if _, err := rpc.NewCallLog("*", nil); !errors.Is(err, rpc.ErrBinaryLog) {
		t.Errorf("without a sink: %v", err)
	}
}

// TestBinaryLogOfInvalidUTF8: entries can be encoded whatever bytes a peer has sent in a method's name or a status message.
func TestBinaryLogOfInvalidUTF8(t *testing.T) {
	sink := &logSink{}
	log, err := rpc.NewCallLog("*", sink)
	if err != nil {
		t.Fatal(err)
	}
	_, addr := startTarn(t, &testService{}, rpc.BinaryLog(log), rpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.Aborted, "not\xfftext")
	}))
	cc := dialTarn(t, addr, rpc.WithBinaryLog(log))
	wantCode(t, cc.Invoke(ctxFor(t), "/service/meth\xffod", &pb.SimpleRequest{}, &pb.SimpleResponse{}), codes.Aborted)
	sink.mu.Lock()
	defer sink.mu.Unlock()
	names, messages := 0, 0
	for _, e := range sink.entries {
		if _, err := proto.Marshal(e); err != nil {
			t.Errorf("%v of %v: %v", e.Type, e.Logger, err)
		}
		if e.GetClientHeader().GetMethodName() == "/service/meth\uFFFDod" {
			names++
		}
		if e.GetTrailer().GetStatusMessage() == "not\uFFFDtext" {
			messages++
		}
	}
	if names != 2 || messages != 2 {
		t.Errorf("%d names of methods and %d messages are logged", names, messages)
	}
}

// TestBinaryLogWithoutTokens: neither side logs the authorization of a call, as in grpc-go from 1.85 on.
func TestBinaryLogWithoutTokens(t *testing.T) {
	sink := &logSink{}
	log, err := rpc.NewCallLog("*", sink)
	if err != nil {
		t.Fatal(err)
	}
	_, addr := startTarn(t, &testService{}, rpc.BinaryLog(log))
	ctx := metadata.AppendToOutgoingContext(ctxFor(t), "authorization", "Bearer secret", "other", "shown")
	if _, err := pb.NewTestServiceClient(dialTarn(t, addr, rpc.WithBinaryLog(log))).EmptyCall(ctx, &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	sink.mu.Lock()
	defer sink.mu.Unlock()
	headers := 0
	for _, e := range sink.entries {
		if h := e.GetClientHeader(); h != nil {
			headers++
			if text := fmt.Sprint(h.Metadata); strings.Contains(text, "secret") || !strings.Contains(text, "shown") {
				t.Errorf("%v logs %s", e.Logger, text)
			}
		}
	}
	if headers != 2 {
		t.Errorf("%d headers of requests are logged", headers)
	}
}

// Features that only Tarn has are logged too: raw messages, panics, hedged calls, and the compressor that a
// handler chooses. A call that its client ends has its status in SERVER_TRAILER.
func TestBinaryLogOfHandlers(t *testing.T) {
	sink := &logSink{}
	log, err := rpc.NewCallLog("*", sink)
	if err != nil {
		t.Fatal(err)
	}
	types := func(side logpb.GrpcLogEntry_Logger) string {
		var out []string
		for _, l := range sink.take(side) {
			_, typ, _ := strings.Cut(l, "EVENT_TYPE_")
			typ, _, _ = strings.Cut(typ, " ")
			out = append(out, typ)
		}
		return strings.Join(out, " ")
	}
	const client, server = logpb.GrpcLogEntry_LOGGER_CLIENT, logpb.GrpcLogEntry_LOGGER_SERVER
	began := make(chan struct{})
	svc := &testService{
		unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			if in.FillUsername {
				panic("as asked")
			}
			if in.FillOauthScope {
				close(began)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return &pb.SimpleResponse{}, rpc.SetSendCompressor(ctx, "identity")
		},
	}
	_, addr := startTarn(t, svc, rpc.BinaryLog(log), rpc.PanicHandler(func(string, any, []byte) {}))
	cc := dialTarn(t, addr, rpc.WithBinaryLog(log), rpc.WithHedgingPolicy(rpc.HedgingPolicy{MaxAttempts: 1 + 1, HedgingDelay: time.Hour}))
	c := pb.NewTestServiceClient(cc)
	_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{FillUsername: true})
	wantCode(t, err, codes.Internal)
	if got := types(server); got != "CLIENT_HEADER CLIENT_MESSAGE SERVER_TRAILER" {
		t.Errorf("a panic: %s", got)
	}
	if got := types(client); got != "CLIENT_HEADER CLIENT_MESSAGE SERVER_TRAILER" {
		t.Errorf("a panic, the client: %s", got)
	}
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := types(client); got != "CLIENT_HEADER CLIENT_MESSAGE SERVER_HEADER SERVER_MESSAGE SERVER_TRAILER" {
		t.Errorf("a hedged call: %s", got)
	}
	types(server)
	bad := tarn.Shared().Copy([]byte{0xff}) // a request that cannot be decoded does not reach the log
	wantCode(t, cc.Invoke(ctxFor(t), "/grpc.testing.TestService/UnaryCall", &bad, &pb.SimpleResponse{}), codes.Internal)
	if got := types(server); got != "" {
		t.Errorf("a malformed request: %s", got)
	}
	if got := types(client); got != "CLIENT_HEADER CLIENT_MESSAGE SERVER_TRAILER" {
		t.Errorf("a malformed request, the client: %s", got)
	}
	s, err := cc.NewStream(ctxFor(t), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/grpc.testing.TestService/FullDuplexCall")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(&pb.StreamingOutputCallRequest{Payload: payload(9)})
	if err != nil {
		t.Fatal(err)
	}
	b := tarn.Shared().Copy(raw)
	if err := s.SendMsg(&b); err != nil {
		t.Fatal(err)
	}
	var back tarn.Chain
	if err := s.RecvMsg(&back); err != nil {
		t.Fatal(err)
	}
	back.Free()
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(&back); err != io.EOF {
		t.Fatal(err)
	}
	answer, err := proto.Marshal(&pb.StreamingOutputCallResponse{Payload: payload(9)})
	if err != nil {
		t.Fatal(err)
	}
	logged := strings.Join(sink.take(client), "\n")
	for _, data := range [][]byte{raw, answer} {
		want := prototext.MarshalOptions{}.Format(&logpb.Message{Length: uint32(len(data)), Data: data})
		if !strings.Contains(logged, strings.ReplaceAll(want, "  ", " ")) {
			t.Errorf("%s is not in the log:\n%s", want, logged)
		}
	}
	ctx, cancel := context.WithCancel(ctxFor(t))
	go func() { <-began; cancel() }()
	_, err = c.UnaryCall(ctx, &pb.SimpleRequest{FillOauthScope: true})
	wantCode(t, err, codes.Canceled)
	if got := types(client); got != "CLIENT_HEADER CLIENT_MESSAGE SERVER_TRAILER" {
		t.Errorf("a call that its client cancels: %s", got)
	}
}

// TestBinaryLogCopiesWhatItShows: of a long message a log copies as many bytes as its filter permits, and encodes nothing if it
// permits none.
func TestBinaryLogCopiesWhatItShows(t *testing.T) {
	pool := tarntest.NewPool(t)
	body := bytes.Repeat([]byte("0123456789"), 100_000)
	buffer := pool.Copy(body)
	defer buffer.Free()
	var chain tarn.Chain
	defer chain.Free()
	for part := range slices.Chunk(body, 100_000) {
		chain.Append(pool.Copy(part))
	}
	message := &pb.Payload{Body: body}
	encoded, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]struct {
		v    any
		data []byte
	}{"bytes": {body, body}, "buffer": {&buffer, body}, "chain": {&chain, body}, "protobuf": {message, encoded}} {
		for _, limit := range []uint64{0, 12, math.MaxUint64} {
			n, data := rpc.LoggedBytes(m.v, limit)
			want := m.data[:min(uint64(len(m.data)), limit)]
			if n != len(m.data) || !bytes.Equal(data, want) {
				t.Errorf("%s, limit %d: %d bytes of %d, want %d of %d", name, limit, len(data), n, len(want), len(m.data))
			}
			if limit < 100 && (name != "protobuf" || limit == 0) && cap(data) > 100 {
				t.Errorf("%s, limit %d: %d bytes were copied", name, limit, cap(data))
			}
		}
	}
}
