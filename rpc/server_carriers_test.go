package rpc_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// way is one way in which calls reach the handlers of a server.
type way struct {
	name     string
	protocol rpc.Protocol
	http     func(*testing.T, http.Handler) string // nil: Serve
	major    int                                   // HTTP version
	text     bool                                  // gRPC-Web in base64
	json     bool
	grpcgo   bool // the server is grpc-go's
}

var ways = []way{
	{name: "gRPC", protocol: rpc.GRPC, major: 2},
	{name: "gRPC by net_http", protocol: rpc.GRPC, http: serveHTTP2, major: 2},
	{name: "gRPC by h2http", protocol: rpc.GRPC, http: serveH2HTTP, major: 2},
	{name: "grpc-go", protocol: rpc.GRPC, major: 2, grpcgo: true},
	{name: "grpc-go by net_http", protocol: rpc.GRPC, http: serveHTTP2, major: 2, grpcgo: true},
	{name: "gRPC-Web", protocol: rpc.GRPCWeb, major: 2},
	{name: "gRPC-Web in text", protocol: rpc.GRPCWeb, major: 2, text: true},
	{name: "gRPC-Web by net_http", protocol: rpc.GRPCWeb, http: serveHTTP2, major: 2},
	{name: "gRPC-Web over HTTP1", protocol: rpc.GRPCWeb, major: 1},
	{name: "Connect", protocol: rpc.Connect, major: 2},
	{name: "Connect in JSON", protocol: rpc.Connect, major: 2, json: true},
	{name: "Connect by net_http", protocol: rpc.Connect, http: serveHTTP2, major: 2},
	{name: "Connect over HTTP1", protocol: rpc.Connect, major: 1},
}

// serve serves svc in this way, with what the two kinds of servers have in common, and returns a client.
func (w way) serve(t *testing.T, svc pb.TestServiceServer, j *journal, maxReceive, maxSend int) *rpc.ClientConn {
	t.Helper()
	var h http.Handler
	if w.grpcgo {
		s := grpc.NewServer(grpc.InTapHandle(j.tap), grpc.StatsHandler(j), grpc.UnaryInterceptor(j.unary), grpc.StreamInterceptor(j.stream),
			grpc.MaxRecvMsgSize(maxReceive), grpc.MaxSendMsgSize(maxSend))
		pb.RegisterTestServiceServer(s, svc)
		if w.http == nil {
			return w.dial(t, serve(t, s))
		}
		h = s
	} else {
		s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.InTapHandle(j.tap), rpc.StatsHandler(j), rpc.UnaryInterceptor(j.unary), rpc.StreamInterceptor(j.stream),
			rpc.MaxRecvMsgSize(maxReceive), rpc.MaxSendMsgSize(maxSend), rpc.WaitForHandlers(true), rpc.PanicHandler(func(string, any, []byte) { j.note("PanicHandler") }))
		pb.RegisterTestServiceServer(s, svc)
		if w.http == nil {
			return w.dial(t, serve(t, s))
		}
		t.Cleanup(s.Stop)
		h = s
	}
	return w.dial(t, w.http(t, h))
}

// dial connects a client to addr.
func (w way) dial(t *testing.T, addr string) *rpc.ClientConn {
	t.Helper()
	opts := []rpc.DialOption{rpc.WithProtocol(w.protocol)}
	if w.json {
		opts = append(opts, rpc.WithDefaultCallOptions(grpc.CallContentSubtype("json")))
	}
	if w.protocol == rpc.GRPC || w.major == 1 {
		return dialTarn(t, addr, opts...)
	}
	two := &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}, DisableCompression: true}
	t.Cleanup(two.CloseIdleConnections)
	var rt http.RoundTripper = two
	if w.text {
		rt = inText{rt}
	}
	return dialBy(t, addr, rt, opts...)
}

// inText makes requests of gRPC-Web in its text form.
type inText struct{ rt http.RoundTripper }

func (x inText) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Content-Type", strings.Replace(r.Header.Get("Content-Type"), "grpc-web", "grpc-web-text", 1))
	if r.Body != nil && r.Body != http.NoBody {
		r.Body, r.GetBody, r.ContentLength = &textBody{ReadCloser: r.Body, encode: base64.StdEncoding.AppendEncode}, nil, -1
	}
	res, err := x.rt.RoundTrip(r)
	if err != nil {
		return res, err
	}
	res.Header.Set("Content-Type", strings.Replace(res.Header.Get("Content-Type"), "grpc-web-text", "grpc-web", 1))
	var rest []byte
	res.Body, res.ContentLength = &textBody{ReadCloser: res.Body, encode: func(out, in []byte) []byte {
		for rest = append(rest, in...); len(rest) >= 4; rest = rest[4:] { // each group may be a padded part's last
			out, _ = base64.StdEncoding.AppendDecode(out, rest[:4])
		}
		return out
	}}, -1
	return res, nil
}

// textBody is a body whose pieces are encoded as they are read.
type textBody struct {
	io.ReadCloser
	encode func(out, in []byte) []byte
	out    bytes.Buffer
}

func (b *textBody) Read(p []byte) (int, error) {
	for b.out.Len() == 0 {
		in := make([]byte, 3000)
		n, err := b.ReadCloser.Read(in)
		b.out.Write(b.encode(nil, in[:n]))
		if err != nil && b.out.Len() == 0 {
			return 0, err
		}
	}
	return b.out.Read(p)
}

// journal notes what a server calls, in order.
type journal struct {
	mu       sync.Mutex
	lines    []string
	refuse   error         // the tap's
	ended    chan struct{} // has one at each End
	trailers chan struct{} // and one at each OutTrailer
}

func newJournal() *journal {
	return &journal{ended: make(chan struct{}, 100), trailers: make(chan struct{}, 100)}
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) peek() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

func (j *journal) tap(ctx context.Context, i *tap.Info) (context.Context, error) {
	j.note("tap")
	return ctx, j.refuse
}

func (j *journal) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	j.note("TagRPC")
	return ctx
}

func (j *journal) HandleRPC(_ context.Context, s stats.RPCStats) {
	line := strings.TrimPrefix(fmt.Sprintf("%T", s), "*stats.")
	end, ok := s.(*stats.End)
	if ok {
		line += " " + status.Code(end.Error).String()
	}
	j.note(line)
	if ok {
		j.ended <- struct{}{}
	}
	if line == "OutTrailer" {
		j.trailers <- struct{}{}
	}
}

func (j *journal) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (j *journal) HandleConn(context.Context, stats.ConnStats)                       {}

func (j *journal) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	j.note("interceptor")
	return h(ctx, req)
}

func (j *journal) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
	j.note("interceptor")
	return h(srv, ss)
}

// streaming is a method of the service and the kind of its calls.
type streaming struct {
	name   string
	method string
	desc   grpc.StreamDesc
}

const testServicePath = "/grpc.testing.TestService/"

var streamings = []streaming{
	{"unary", "UnaryCall", grpc.StreamDesc{}},
	{"client stream", "StreamingInputCall", grpc.StreamDesc{ClientStreams: true}},
	{"server stream", "StreamingOutputCall", grpc.StreamDesc{ServerStreams: true}},
	{"both", "FullDuplexCall", grpc.StreamDesc{ClientStreams: true, ServerStreams: true}},
}

// journaledService sets a header and a trailer, answers its requests and then does what the scene wants.
type journaledService struct {
	testService
	j      *journal
	leave  func(context.Context) error
	length int  // of responses
	fails  bool // with the error of SendMsg or RecvMsg, instead of going on
}

// incompressible is a payload that no compression makes shorter.
func incompressible(n int) *pb.Payload {
	p := &pb.Payload{Body: make([]byte, n)}
	rand.NewChaCha8([32]byte{}).Read(p.Body)
	return p
}

func (s *journaledService) begin(ctx context.Context, set func(metadata.MD) error, trailer func(metadata.MD)) {
	s.j.note("handler")
	_ = set(pairs("h", "1"))
	trailer(pairs("t", "1"))
}

func (s *journaledService) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	s.begin(ctx, func(md metadata.MD) error { return grpc.SetHeader(ctx, md) }, func(md metadata.MD) { grpc.SetTrailer(ctx, md) })
	if err := s.leave(ctx); err != nil {
		return nil, err
	}
	return &pb.SimpleResponse{Payload: incompressible(s.length)}, nil
}

// aborted is what a handler does after an error of SendMsg or RecvMsg.
func (s *journaledService) aborted(ctx context.Context, err error) error {
	if s.fails {
		return err
	}
	s.j.note("error " + status.Code(err).String())
	select {
	case <-ctx.Done():
		s.j.note("context " + ctx.Err().Error())
	case <-time.After(5 * time.Second):
		s.j.note("the context has not ended")
	}
	return nil
}

func (s *journaledService) StreamingInputCall(st pb.TestService_StreamingInputCallServer) error {
	s.begin(st.Context(), st.SetHeader, st.SetTrailer)
	for {
		_, err := st.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return s.aborted(st.Context(), err)
		}
	}
	if err := s.leave(st.Context()); err != nil {
		return err
	}
	if err := st.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: 1}); err != nil {
		return s.aborted(st.Context(), err)
	}
	return nil
}

func (s *journaledService) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, st pb.TestService_StreamingOutputCallServer) error {
	s.begin(st.Context(), st.SetHeader, st.SetTrailer)
	for range 2 {
		if err := st.Send(&pb.StreamingOutputCallResponse{Payload: incompressible(s.length)}); err != nil {
			return s.aborted(st.Context(), err)
		}
	}
	return s.leave(st.Context())
}

func (s *journaledService) FullDuplexCall(st pb.TestService_FullDuplexCallServer) error {
	s.begin(st.Context(), st.SetHeader, st.SetTrailer)
	for {
		_, err := st.Recv()
		if err == io.EOF {
			return s.leave(st.Context())
		}
		if err == nil {
			err = st.Send(&pb.StreamingOutputCallResponse{Payload: incompressible(s.length)})
		}
		if err != nil {
			return s.aborted(st.Context(), err)
		}
	}
}

// outcome is what a client sees of a call.
func (k streaming) outcome(ctx context.Context, cc *rpc.ClientConn, length int) string {
	method := testServicePath + k.method
	var header, trailer metadata.MD
	messages := 0
	var err error
	if k.name == "unary" {
		err = cc.Invoke(ctx, method, &pb.SimpleRequest{Payload: incompressible(length)}, new(pb.SimpleResponse), grpc.Header(&header), grpc.Trailer(&trailer))
		if err == nil {
			messages++
		}
	} else {
		var s grpc.ClientStream
		if s, err = cc.NewStream(ctx, &k.desc, method); err == nil {
			n := 1
			if k.desc.ClientStreams {
				n = 2
			}
			for range n {
				if s.SendMsg(&pb.StreamingOutputCallRequest{Payload: incompressible(length)}) != nil {
					break
				}
			}
			_ = s.CloseSend() // RecvMsg has the status
			for err == nil {
				if err = s.RecvMsg(new(pb.StreamingOutputCallResponse)); err == nil {
					messages++
				}
				if !k.desc.ServerStreams {
					break
				}
			}
			if err == io.EOF {
				err = nil
			}
			header, _ = s.Header()
			trailer = s.Trailer()
		}
	}
	return fmt.Sprintf("%v, %d messages, header %v, trailer %v", status.Code(err), messages, header["h"], trailer["t"])
}

// neverDone is a context that does not end at its deadline, which is always left away.
type neverDone struct {
	context.Context
	left time.Duration
}

func (c neverDone) Deadline() (time.Time, bool) { return time.Now().Add(c.left), true }

// scene is a call's end that a server's code or limits bring about.
type scene struct {
	name                string
	leave               func(ctx context.Context) error
	refuse              error // the tap's
	maxReceive, maxSend int
	timeout             time.Duration // of the client; 0: none
	method              string        // called instead
	grpcgo              bool          // grpc-go's server survives it

	// calls are what the server calls from its beginning to the end, for each kind; then code and metadata are what the client sees.
	calls [4]string
	sees  [4]string
}

const (
	called  = "tap, TagRPC, InHeader, Begin, "
	sent    = "OutHeader, OutPayload, "
	replied = "OutHeader, OutPayload, OutTrailer, "
)

var errNotFound = status.Error(codes.NotFound, "there is none")

// handled are the calls for each kind, when everything before the handler's end goes well; then follows the handler's end. unary, and client are what
// the unary handler and that of a client stream send.
func handled(unary, client, stream string) [4]string {
	return [4]string{
		called + "InPayload, interceptor, handler, " + unary,
		called + "interceptor, handler, InPayload, InPayload, " + client,
		called + "interceptor, InPayload, handler, OutHeader, OutPayload, OutPayload, " + stream,
		called + "interceptor, handler, InPayload, OutHeader, OutPayload, InPayload, OutPayload, " + stream,
	}
}

func each(s string) [4]string { return [4]string{s, s, s, s} }

var scenes = []scene{
	{name: "returns", leave: func(context.Context) error { return nil }, grpcgo: true,
		calls: handled(replied+"End OK", replied+"End OK", "OutTrailer, End OK"),
		sees: [4]string{"OK, 1 messages, header [1], trailer [1]", "OK, 1 messages, header [1], trailer [1]",
			"OK, 2 messages, header [1], trailer [1]", "OK, 2 messages, header [1], trailer [1]"}},
	{name: "fails", leave: func(context.Context) error { return errNotFound }, grpcgo: true,
		calls: handled("OutHeader, OutTrailer, End NotFound", "OutHeader, OutTrailer, End NotFound", "OutTrailer, End NotFound"),
		sees: [4]string{"NotFound, 0 messages, header [1], trailer [1]", "NotFound, 0 messages, header [1], trailer [1]",
			"NotFound, 2 messages, header [1], trailer [1]", "NotFound, 2 messages, header [1], trailer [1]"}},
	{name: "panics", leave: func(context.Context) error { panic("the handler's") },
		calls: handled("PanicHandler, OutHeader, OutTrailer, End Internal", "PanicHandler, OutHeader, OutTrailer, End Internal", "PanicHandler, OutTrailer, End Internal"),
		sees: [4]string{"Internal, 0 messages, header [1], trailer [1]", "Internal, 0 messages, header [1], trailer [1]",
			"Internal, 2 messages, header [1], trailer [1]", "Internal, 2 messages, header [1], trailer [1]"}},
	{name: "exits", leave: func(context.Context) error { runtime.Goexit(); return nil },
		calls: handled("OutHeader, OutTrailer, End Internal", "OutHeader, OutTrailer, End Internal", "OutTrailer, End Internal"),
		sees: [4]string{"Internal, 0 messages, header [1], trailer [1]", "Internal, 0 messages, header [1], trailer [1]",
			"Internal, 2 messages, header [1], trailer [1]", "Internal, 2 messages, header [1], trailer [1]"}},
	{name: "aborts", leave: func(context.Context) error { panic(http.ErrAbortHandler) },
		calls: handled("End Internal", "End Internal", "End Internal")},
	{name: "is refused by the tap", refuse: errors.New("no"), grpcgo: true, calls: each("tap"), sees: each("PermissionDenied, 0 messages, header [], trailer []")},
	{name: "is refused by the tap with a status", refuse: status.Error(codes.ResourceExhausted, "no"), grpcgo: true,
		calls: each("tap"), sees: each("ResourceExhausted, 0 messages, header [], trailer []")},
	{name: "calls an unknown method", method: "Nothing", grpcgo: true,
		calls: each("tap, TagRPC, InHeader, OutTrailer"), sees: each("Unimplemented, 0 messages, header [], trailer []")},
	{name: "calls an unknown method and is refused by the tap", method: "Nothing", refuse: errors.New("no"), grpcgo: true,
		calls: each("tap"), sees: each("PermissionDenied, 0 messages, header [], trailer []")},
	{name: "sends too long a message", leave: func(context.Context) error { return nil }, maxReceive: 1000, grpcgo: true,
		calls: [4]string{called + "OutTrailer, End ResourceExhausted",
			called + "interceptor, handler, OutHeader, OutTrailer, error ResourceExhausted, context context canceled, End ResourceExhausted",
			called + "interceptor, OutTrailer, End ResourceExhausted",
			called + "interceptor, handler, OutHeader, OutTrailer, error ResourceExhausted, context context canceled, End ResourceExhausted"},
		sees: [4]string{"ResourceExhausted, 0 messages, header [], trailer []", "ResourceExhausted, 0 messages, header [1], trailer [1]",
			"ResourceExhausted, 0 messages, header [], trailer []", "ResourceExhausted, 0 messages, header [1], trailer [1]"}},
	{name: "is sent too long a message", leave: func(context.Context) error { return nil }, maxSend: 1000, grpcgo: true,
		calls: [4]string{called + "InPayload, interceptor, handler, OutHeader, OutTrailer, End ResourceExhausted",
			"", // it is short
			called + "interceptor, InPayload, handler, OutHeader, OutTrailer, error ResourceExhausted, context context canceled, End ResourceExhausted",
			called + "interceptor, handler, InPayload, OutHeader, OutTrailer, error ResourceExhausted, context context canceled, End ResourceExhausted"},
		sees: each("ResourceExhausted, 0 messages, header [1], trailer [1]")},
	{name: "waits for the deadline", leave: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, timeout: 100 * time.Millisecond, grpcgo: true},
}

// play has a client make the scene's call, and returns what the server has called and what the client sees.
func (w way) play(t *testing.T, s *scene, k *streaming, length int) (j *journal, sees string) {
	j = newJournal()
	j.refuse = s.refuse
	// The deadline may pass while a handler receives or sends: then that fails, and not what it waits for.
	svc := &journaledService{j: j, leave: s.leave, length: length, fails: s.timeout > 0}
	cc := w.serve(t, svc, j, cmp.Or(s.maxReceive, 1<<20), cmp.Or(s.maxSend, 1<<20))
	ctx := ctxFor(t)
	if s.timeout > 0 {
		ctx = neverDone{ctx, s.timeout} // so that the server ends the call
	}
	called := *k
	called.method = cmp.Or(s.method, k.method)
	return j, called.outcome(ctx, cc, length)
}

// TestHandlersOverEachCarrier: tap, statistics handlers, interceptors and handlers are called in the same order, and clients see the same of each end
// of a handler, in whatever way the call has come: as with grpc-go's server. Connect's errors of unary calls have all metadata in the trailer.
func TestHandlersOverEachCarrier(t *testing.T) {
	t.Parallel()
	faultnet.NeedsTCP(t, "net/http serves and dials")
	const length = 2000
	for _, w := range ways {
		for _, s := range scenes {
			if w.grpcgo && (!s.grpcgo || w.http != nil && s.refuse != nil) { // it calls no tap in ServeHTTP
				continue
			}
			for i, k := range streamings {
				if s.calls[i] == "" && s.timeout == 0 || w.major == 1 && k.name == "both" {
					continue
				}
				t.Run(w.name+"/"+s.name+"/"+k.name, func(t *testing.T) {
					j, sees := w.play(t, &s, &k, length)
					for range 8 { // on a busy machine the deadline passes before the call is at the server
						if s.timeout == 0 || slices.Contains(j.peek(), "Begin") {
							break
						}
						s.timeout *= 2
						j, sees = w.play(t, &s, &k, length)
					}
					switch last := s.calls[i]; { // the client may have the status before
					case strings.Contains(last, "End") || s.timeout > 0:
						within(t, "End", func() { <-j.ended })
					case strings.HasSuffix(last, "OutTrailer"):
						within(t, "OutTrailer", func() { <-j.trailers })
					}
					calls := j.take()
					if s.timeout > 0 {
						end := calls[len(calls)-1]
						if end != "End DeadlineExceeded" && !(w.grpcgo && end == "End Canceled") || !strings.HasPrefix(sees, "DeadlineExceeded") {
							t.Errorf("the call ended with %s, the client sees %s", end, sees)
						}
						return
					}
					want := strings.Split(s.calls[i], ", ")
					if w.grpcgo && w.http != nil { // it reports OutHeader for SendHeader alone
						want = slices.DeleteFunc(want, func(e string) bool { return e == "OutHeader" || e == "tap" })
					}
					if w.grpcgo && strings.Contains(s.calls[i], "error") { // its End has the handler's status, or that of a second write of one, by release
						want[len(want)-1] = calls[len(calls)-1]
					}
					if !slices.Equal(calls, want) {
						t.Errorf("the server called\n%s\nwant\n%s", strings.Join(calls, ", "), strings.Join(want, ", "))
					}
					seen := s.sees[i]
					switch {
					case seen == "":
						if code, _, _ := strings.Cut(sees, ","); code != "Internal" && code != "Unavailable" && code != "Unknown" {
							t.Errorf("the client sees %s", sees)
						}
						return
					case s.name == "exits" && (w.http != nil || w.protocol != rpc.GRPC): // net/http ends the response, after what has been flushed of it
						seen, _, _ = strings.Cut(seen, ",")
						sees, _, _ = strings.Cut(sees, ",")
						if w.protocol == rpc.Connect && k.name == "unary" && w.major == 2 { // a client that does not use a body before its stream has ended has HTTP status 500
							seen = "Unknown"
						}
					case w.protocol == rpc.Connect && k.name == "unary" && !strings.HasPrefix(seen, "OK"):
						seen = strings.Replace(seen, "header [1]", "header []", 1)
					}
					if sees != seen {
						t.Errorf("the client sees\n%s\nwant\n%s", sees, seen)
					}
				})
			}
		}
	}
}

// compressions notes how responses are compressed.
type compressions struct {
	*journal
	header chan string
	length chan [2]int // as it is, and compressed
}

func (c *compressions) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.OutHeader:
		c.header <- s.Compression
	case *stats.OutPayload:
		c.length <- [2]int{s.Length, s.CompressedLength}
	}
}

// TestSendCompressorOverEachCarrier: a handler learns which compressions its client accepts, and chooses one of them or none, in each protocol; the
// statistics have it.
func TestSendCompressorOverEachCarrier(t *testing.T) {
	faultnet.NeedsTCP(t, "net/http serves and dials")
	for _, w := range ways {
		if w.grpcgo {
			continue
		}
		for _, name := range []string{"gzip", "identity"} {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				seen := &compressions{newJournal(), make(chan string, 1), make(chan [2]int, 1)}
				s := rpc.NewServer(rpc.Pool(tarntest.NewPool(t)), rpc.WaitForHandlers(true), rpc.StatsHandler(seen))
				pb.RegisterTestServiceServer(s, &testService{unary: func(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
					offered, err := rpc.ClientSupportedCompressors(ctx)
					if err != nil || !slices.Contains(offered, "gzip") {
						t.Errorf("the client offers %q, %v", offered, err)
					}
					if err := rpc.SetSendCompressor(ctx, "nothing"); !errors.Is(err, rpc.ErrCompressor) {
						t.Errorf("an unknown compressor: %v", err)
					}
					return &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, 5000)}}, rpc.SetSendCompressor(ctx, name)
				}})
				var cc *rpc.ClientConn
				if w.http == nil {
					cc = w.dial(t, serve(t, s))
				} else {
					t.Cleanup(s.Stop)
					cc = w.dial(t, w.http(t, s))
				}
				out, err := pb.NewTestServiceClient(cc).UnaryCall(ctxFor(t), &pb.SimpleRequest{})
				if err != nil || len(out.GetPayload().GetBody()) != 5000 {
					t.Fatal(err)
				}
				want := name
				if name == "identity" {
					want = ""
				}
				if got := <-seen.header; got != want {
					t.Errorf("the header names %q", got)
				}
				if n := <-seen.length; (n[1] < n[0]) != (name == "gzip") {
					t.Errorf("%d bytes are sent as %d", n[0], n[1])
				}
			})
		}
	}
}
