package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// The net of options: random sets of dial, server and call options, interceptors, protocols and facades. Each call is made with grpc-go's
// client and with rpc's, to grpc-go's server and to rpc's, and everything that can be observed is compared with what grpc-go's client and
// server show.

// netSeeds are those whose trials once failed. The trial of an odd seed follows a script.
var netSeeds = []uint64{18360840012380898462, 2897323569219134374, 9142264893232889598,
	12282704389743906439, 3368545739832062715, 4031789075401863961, 17502258903690579441}

// netTrial is a call and everything that is set for it. It is drawn from a seed, so that each way gets its own options with the same
// meaning.
type netTrial struct {
	seed    uint64
	clients []netOption
	calls   []string
	servers []string
	kind    string // of the call
	size    int    // of each message
	fails   codes.Code
	md      metadata.MD
	script  *netScript // nil: the call is as kind says
}

// netOption is a setting of a client.
type netOption struct {
	name string
	set  func(o *netObserved, c *netClient)
}

// netClient is a client's settings, for both libraries.
type netClient struct {
	defaults []grpc.CallOption
	unary    []grpc.UnaryClientInterceptor
	stream   []grpc.StreamClientInterceptor
	method   []string // of the service config
	theirs   []grpc.DialOption
	ours     []rpc.DialOption
}

// netObserved is what one way of a trial shows.
type netObserved struct {
	mu  sync.Mutex
	log map[string]int // how often
}

func (o *netObserved) saw(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log[fmt.Sprintf(format, args...)]++
}

func (o *netObserved) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, k := range slices.Sorted(maps.Keys(o.log)) {
		out = append(out, fmt.Sprintf("%d × %s", o.log[k], k))
	}
	return out
}

// netToken are per-RPC credentials.
type netToken struct{ key, value string }

func (k netToken) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{k.key: k.value}, nil
}

func (netToken) RequireTransportSecurity() bool { return false }

// netEvents reports the events of calls. Those about picks differ, as the options page says.
type netEvents struct {
	o    *netObserved
	side string
}

func (e netEvents) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	e.o.saw("%s: TagRPC", e.side)
	return ctx
}

func (e netEvents) HandleRPC(_ context.Context, s stats.RPCStats) {
	name := strings.TrimPrefix(fmt.Sprintf("%T", s), "*stats.")
	switch s := s.(type) {
	case *stats.End:
		name += " " + status.Code(s.Error).String()
	case *stats.InPayload:
		name += fmt.Sprint(" ", s.Length)
	case *stats.OutPayload:
		name += fmt.Sprint(" ", s.Length)
	case *stats.DelayedPickComplete:
		return
	}
	if name == "PickerUpdated" {
		return
	}
	e.o.saw("%s: %s", e.side, name)
}

func (netEvents) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (netEvents) HandleConn(context.Context, stats.ConnStats)                       {}

func netDefault(name string, opt func(o *netObserved) grpc.CallOption) netOption {
	return netOption{"default " + name, func(o *netObserved, c *netClient) { c.defaults = append(c.defaults, opt(o)) }}
}

func netMethods(s string) netOption {
	return netOption{"config " + s, func(_ *netObserved, c *netClient) { c.method = append(c.method, s) }}
}

func netAround(name string, change func(o *netObserved, ctx context.Context, opts []grpc.CallOption) (context.Context, []grpc.CallOption)) netOption {
	return netOption{"interceptor " + name, func(o *netObserved, c *netClient) {
		c.unary = append(c.unary, func(ctx context.Context, m string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			o.saw("interceptor %s: unary, %d options", name, len(opts))
			ctx, opts = change(o, ctx, opts)
			return next(ctx, m, req, reply, cc, opts...)
		})
		c.stream = append(c.stream, func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, m string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			o.saw("interceptor %s: stream, %d options", name, len(opts))
			ctx, opts = change(o, ctx, opts)
			return next(ctx, d, cc, m, opts...)
		})
	}}
}

var netClients = []netOption{
	netDefault("credentials", func(*netObserved) grpc.CallOption { return grpc.PerRPCCredentials(netToken{"x-token", "default"}) }),
	netDefault("gzip", func(*netObserved) grpc.CallOption { return grpc.UseCompressor(gzip.Name) }),
	netDefault("MaxCallRecvMsgSize", func(*netObserved) grpc.CallOption { return grpc.MaxCallRecvMsgSize(500) }),
	netDefault("MaxCallSendMsgSize", func(*netObserved) grpc.CallOption { return grpc.MaxCallSendMsgSize(500) }),
	netDefault("OnFinish", func(o *netObserved) grpc.CallOption {
		return grpc.OnFinish(func(err error) { o.saw("default OnFinish: %v", status.Code(err)) })
	}),
	netDefault("WaitForReady", func(*netObserved) grpc.CallOption { return grpc.WaitForReady(true) }),
	netDefault("subtype", func(*netObserved) grpc.CallOption { return grpc.CallContentSubtype("proto") }),
	netDefault("ForceCodecV2", func(*netObserved) grpc.CallOption { return grpc.ForceCodecV2(encoding.GetCodecV2("proto")) }),
	netMethods(`"timeout":"20s"`),
	netMethods(`"waitForReady":true`),
	netMethods(`"maxRequestMessageBytes":300`),
	netMethods(`"maxResponseMessageBytes":300`),
	netMethods(`"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}`),
	netAround("passes", func(_ *netObserved, ctx context.Context, opts []grpc.CallOption) (context.Context, []grpc.CallOption) {
		return ctx, opts
	}),
	netAround("strips", func(_ *netObserved, ctx context.Context, opts []grpc.CallOption) (context.Context, []grpc.CallOption) {
		return ctx, nil
	}),
	{"interceptor twice", func(o *netObserved, c *netClient) {
		c.unary = append(c.unary, func(ctx context.Context, m string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			o.saw("interceptor twice: %v", status.Code(next(ctx, m, req, &testpb.SimpleResponse{}, cc, opts...)))
			return next(ctx, m, req, reply, cc, opts...)
		})
	}},
	netAround("adds", func(o *netObserved, ctx context.Context, opts []grpc.CallOption) (context.Context, []grpc.CallOption) {
		return metadata.AppendToOutgoingContext(ctx, "x-added", "1"), append(opts[:len(opts):len(opts)], grpc.PerRPCCredentials(netToken{"x-token", "interceptor"}),
			grpc.OnFinish(func(err error) { o.saw("interceptor's OnFinish: %v", status.Code(err)) }))
	}),
	{"WithPerRPCCredentials", func(_ *netObserved, c *netClient) {
		c.theirs = append(c.theirs, grpc.WithPerRPCCredentials(netToken{"x-dial-token", "d"}))
		c.ours = append(c.ours, rpc.WithPerRPCCredentials(netToken{"x-dial-token", "d"}))
	}},
	{"WithUserAgent", func(_ *netObserved, c *netClient) {
		c.theirs = append(c.theirs, grpc.WithUserAgent("net/1"))
		c.ours = append(c.ours, rpc.WithUserAgent("net/1"))
	}},
	{"WithAuthority", func(_ *netObserved, c *netClient) {
		c.theirs = append(c.theirs, grpc.WithAuthority("net.example"))
		c.ours = append(c.ours, rpc.WithAuthority("net.example"))
	}},
	{"WithDisableRetry", func(_ *netObserved, c *netClient) {
		c.theirs = append(c.theirs, grpc.WithDisableRetry())
		c.ours = append(c.ours, rpc.WithDisableRetry())
	}},
	{"WithStatsHandler", func(o *netObserved, c *netClient) {
		c.theirs = append(c.theirs, grpc.WithStatsHandler(netEvents{o, "client"}))
		c.ours = append(c.ours, rpc.WithStatsHandler(netEvents{o, "client"}))
	}},
}

// netOutputs are what options of a call report to.
type netOutputs struct {
	header, trailer metadata.MD
	peer            peer.Peer
}

var netCalls = map[string]func(o *netObserved, out *netOutputs) grpc.CallOption{
	"Header":  func(_ *netObserved, out *netOutputs) grpc.CallOption { return grpc.Header(&out.header) },
	"Trailer": func(_ *netObserved, out *netOutputs) grpc.CallOption { return grpc.Trailer(&out.trailer) },
	"Peer":    func(_ *netObserved, out *netOutputs) grpc.CallOption { return grpc.Peer(&out.peer) },
	"credentials": func(*netObserved, *netOutputs) grpc.CallOption {
		return grpc.PerRPCCredentials(netToken{"x-token", "call"})
	},
	"gzip":               func(*netObserved, *netOutputs) grpc.CallOption { return grpc.UseCompressor(gzip.Name) },
	"identity":           func(*netObserved, *netOutputs) grpc.CallOption { return grpc.UseCompressor(encoding.Identity) },
	"MaxCallRecvMsgSize": func(*netObserved, *netOutputs) grpc.CallOption { return grpc.MaxCallRecvMsgSize(200) },
	"MaxCallSendMsgSize": func(*netObserved, *netOutputs) grpc.CallOption { return grpc.MaxCallSendMsgSize(200) },
	"more":               func(*netObserved, *netOutputs) grpc.CallOption { return grpc.MaxCallRecvMsgSize(1 << 20) },
	"no wait":            func(*netObserved, *netOutputs) grpc.CallOption { return grpc.WaitForReady(false) },
	"no such compressor": func(*netObserved, *netOutputs) grpc.CallOption { return grpc.UseCompressor("net-unknown") },
	"StaticMethod":       func(*netObserved, *netOutputs) grpc.CallOption { return grpc.StaticMethod() },
	"no retry buffer":    func(*netObserved, *netOutputs) grpc.CallOption { return grpc.MaxRetryRPCBufferSize(0) },
	"OnFinish": func(o *netObserved, _ *netOutputs) grpc.CallOption {
		return grpc.OnFinish(func(err error) { o.saw("OnFinish: %v", status.Code(err)) })
	},
}

// netServers are settings of a server.
var netServers = []string{"MaxRecvMsgSize", "MaxSendMsgSize", "interceptors", "StatsHandler"}

func drawNet(seed uint64) *netTrial {
	r := rand.New(rand.NewPCG(seed, 1))
	tr := &netTrial{seed: seed, kind: []string{"unary", "output", "input"}[r.IntN(3)], size: []int{0, 10, 250, 400, 2000}[r.IntN(5)], md: metadata.MD{}}
	if r.IntN(3) == 0 {
		tr.fails = []codes.Code{codes.Unavailable, codes.NotFound, codes.Unauthenticated}[r.IntN(3)]
		tr.md.Set("x-code", strconv.Itoa(int(tr.fails)))
	}
	if r.IntN(3) == 0 {
		tr.md.Append("x-more", "1", "2")
		tr.md.Append("x-more-bin", "\x01\xfe")
	}
	for range r.IntN(5) {
		tr.clients = append(tr.clients, netClients[r.IntN(len(netClients))])
	}
	names := slices.Sorted(maps.Keys(netCalls))
	for range r.IntN(5) {
		tr.calls = append(tr.calls, names[r.IntN(len(names))])
	}
	for _, s := range netServers {
		if r.IntN(4) == 0 {
			tr.servers = append(tr.servers, s)
		}
	}
	if seed%2 == 1 {
		tr.followScript()
	}
	return tr
}

// followScript gives the trial a script, and takes from it what has none: other limits than those of small messages, and second attempts.
func (tr *netTrial) followScript() {
	r := rand.New(rand.NewPCG(tr.seed, 2))
	tr.script, tr.size, tr.fails = drawScript(r), []int{0, 10, 100}[r.IntN(3)], codes.OK
	tr.md.Delete("x-code")
	tr.clients = slices.DeleteFunc(tr.clients, func(o netOption) bool {
		return o.name == "interceptor twice" || tr.script.ending == endedConfig && strings.HasPrefix(o.name, `config "timeout"`)
	})
	if tr.script.count { // grpc-go sets what these point to when the context ends, after the call
		tr.calls = slices.DeleteFunc(tr.calls, func(c string) bool { return c == "Header" || c == "Trailer" || c == "Peer" })
	}
	if tr.script.ending >= endedCancelled { // of two errors either may be found first
		tr.calls = slices.DeleteFunc(tr.calls, func(c string) bool { return c == "no such compressor" })
	}
	if tr.script.ending == endedConfig {
		tr.clients = append(tr.clients, netMethods(`"timeout":"0s"`))
	}
}

func (tr *netTrial) String() string {
	var clients []string
	for _, c := range tr.clients {
		clients = append(clients, c.name)
	}
	what := fmt.Sprintf("%s, fails %v", tr.kind, tr.fails)
	if tr.script != nil {
		what = tr.script.String()
	}
	return fmt.Sprintf("seed %d: %s, of %d bytes, metadata %v, client %q, call %q, server %q", tr.seed, what, tr.size, tr.md, clients, tr.calls, tr.servers)
}

// netWay is a client and a server.
type netWay struct {
	name     string
	facade   string // "grpc-go", "rpc", "AsGRPC", "DialOptions"
	protocol rpc.Protocol
	ours     bool // the server is rpc's
}

var netWays = func() (out []netWay) {
	for _, facade := range []string{"grpc-go", "rpc", "AsGRPC", "DialOptions"} {
		for _, p := range []rpc.Protocol{rpc.GRPC, rpc.GRPCWeb, rpc.Connect} {
			for server, ours := range map[string]bool{"grpc-go": false, "rpc": true} {
				if p != rpc.GRPC && (!ours || facade == "grpc-go") {
					continue
				}
				out = append(out, netWay{fmt.Sprintf("%s, %v, to %s", facade, p, server), facade, p, ours})
			}
		}
	}
	return out
}()

func (tr *netTrial) dial(t *testing.T, o *netObserved, w netWay, addr string) (cc grpc.ClientConnInterface, closes func()) {
	var c netClient
	for _, opt := range tr.clients {
		opt.set(o, &c)
	}
	if len(c.method) > 0 {
		js := `{"methodConfig":[{"name":[{}],` + strings.Join(slices.Compact(slices.Sorted(slices.Values(c.method))), ",") + `}]}`
		c.theirs, c.ours = append(c.theirs, grpc.WithDefaultServiceConfig(js)), append(c.ours, rpc.WithDefaultServiceConfig(js))
	}
	stockOwn := []grpc.DialOption{grpc.WithDefaultCallOptions(c.defaults...), grpc.WithChainUnaryInterceptor(c.unary...), grpc.WithChainStreamInterceptor(c.stream...)}
	plain := insecure.NewCredentials()
	if w.facade == "grpc-go" {
		stock, err := grpc.NewClient(addr, append(append(c.theirs, stockOwn...), grpc.WithTransportCredentials(plain))...)
		if err != nil {
			t.Fatal(tr, err)
		}
		return stock, func() { stock.Close() }
	}
	ours := append(c.ours, rpc.WithPool(tarntest.NewPool(t)), rpc.WithProtocol(w.protocol))
	var transport *h2http.Transport
	if tr.script != nil && w.protocol != rpc.GRPC { // over HTTP/1.1 no script could have both sides send
		transport = &h2http.Transport{Config: h2http.Config{Pool: tarntest.NewPool(t)}}
		addr, ours = "http://"+addr, append(ours, rpc.WithRoundTripper(transport))
	} else {
		ours = append(ours, rpc.WithTransportCredentials(plain))
	}
	if w.facade != "DialOptions" {
		ours = append(ours, rpc.WithDefaultCallOptions(c.defaults...), rpc.WithChainUnaryInterceptor(c.unary...), rpc.WithChainStreamInterceptor(c.stream...))
	}
	client, err := rpc.NewClient(addr, ours...)
	if err != nil {
		t.Fatal(tr, err)
	}
	closeOurs := func() {
		client.Close()
		if transport != nil {
			transport.CloseIdleConnections()
		}
	}
	switch w.facade {
	case "AsGRPC":
		return rpc.AsGRPC(client), closeOurs
	case "DialOptions":
		stock, err := grpc.NewClient("passthrough:///elsewhere", append(append(stockOwn, grpc.WithTransportCredentials(plain)), rpc.DialOptions(client)...)...)
		if err != nil {
			t.Fatal(tr, err)
		}
		return stock, func() { stock.Close(); closeOurs() }
	}
	return client, closeOurs
}

// run makes the call one way, and returns what can be observed.
func (tr *netTrial) run(t *testing.T, w netWay) []string {
	o := &netObserved{log: map[string]int{}}
	var play *netPlay
	if tr.script != nil {
		play = newNetPlay(tr.script, o, tr.size)
	}
	addr, stop := tr.serve(t, o, play, w.ours)
	cc, closes := tr.dial(t, o, w, addr)
	var out netOutputs
	var opts []grpc.CallOption
	for _, name := range tr.calls {
		opts = append(opts, netCalls[name](o, &out))
	}
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(t.Context(), tr.md), 2*time.Minute)
	var err error
	if play != nil {
		err = play.call(ctx, cc, opts)
	} else {
		err = tr.call(ctx, testpb.NewTestServiceClient(cc), o, opts)
	}
	cancel()
	st := status.Convert(err)
	o.saw("status %v, %d details", st.Code(), len(st.Details()))
	if strings.HasPrefix(st.Message(), "it fails") {
		o.saw("message %q", st.Message())
	}
	for what, md := range map[string]metadata.MD{"header": out.header, "trailer": out.trailer} {
		for _, k := range slices.Sorted(maps.Keys(md)) {
			if strings.HasPrefix(k, "x-") {
				o.saw("%s: %s %q", what, k, md[k])
			}
		}
	}
	o.saw("peer %v", out.peer.Addr != nil)
	stop() // before the client's connection ends, which could be earlier than what the server does at the end of a call
	closes()
	return o.lines()
}

func (tr *netTrial) call(ctx context.Context, c testpb.TestServiceClient, o *netObserved, opts []grpc.CallOption) error {
	switch tr.kind {
	case "unary":
		r, err := c.UnaryCall(ctx, &testpb.SimpleRequest{Payload: netBody(tr.size)}, opts...)
		o.saw("reply %x", r.GetPayload().GetBody())
		return err
	case "output":
		s, err := c.StreamingOutputCall(ctx, &testpb.StreamingOutputCallRequest{Payload: netBody(tr.size)}, opts...)
		if err != nil {
			return err
		}
		for {
			r, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			o.saw("message %x", r.GetPayload().GetBody())
		}
	}
	s, err := c.StreamingInputCall(ctx, opts...)
	if err != nil {
		return err
	}
	if err := s.Send(&testpb.StreamingInputCallRequest{Payload: netBody(tr.size)}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r, err := s.CloseAndRecv()
	o.saw("reply %d", r.GetAggregatedPayloadSize())
	return err
}

// comparable leaves out what is known to differ between w and grpc-go's client and server, as the page on rpc says.
func (tr *netTrial) comparable(w netWay, lines []string) []string {
	refused := slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "status ResourceExhausted") })
	lines = slices.Clone(lines)
	if tr.script != nil && tr.script.wrong && w.protocol == rpc.Connect { // another code for a wrong number of messages
		for i, l := range lines {
			lines[i] = strings.ReplaceAll(l, "Unimplemented", "Internal")
		}
		slices.Sort(lines)
	}
	return slices.DeleteFunc(lines, func(l string) bool {
		_, l, _ = strings.Cut(l, " × ")
		switch {
		case tr.script != nil && (!tr.script.shows(l) || tr.script.differs(w, l)):
			return true
		case strings.HasPrefix(l, "status"), strings.Contains(l, "OnFinish"), strings.HasPrefix(l, "interceptor"):
			return false
		case refused:
			// A message that is too long is found earlier or later: before its header is sent, or when some messages have been received.
			return true
		case w.protocol == rpc.Connect && tr.fails != codes.OK && (strings.HasPrefix(l, "header") || strings.HasPrefix(l, "trailer") || l == "client: InHeader"):
			return true // the metadata of an error is not in two parts
		case w.protocol != rpc.GRPC && tr.fails == codes.Unavailable && strings.Contains(tr.String(), "retryPolicy") && !strings.HasPrefix(l, "message"):
			// The service sets a header, which in gRPC ends the right to another attempt; a header of HTTP is part of each answer.
			return true
		}
		return false
	})
}

// TestOptionsNet runs trials for a minute, for ten seconds in the short form, and for an hour with TARN_LONG=1. TARN_OPTIONS_SEED runs one.
func TestOptionsNet(t *testing.T) {
	length := time.Minute
	switch {
	case os.Getenv("TARN_LONG") == "1":
		length = time.Hour
	case testing.Short():
		length = 10 * time.Second
	}
	if end, ok := t.Deadline(); ok {
		length = min(length, time.Until(end)*3/4)
	}
	seeds := slices.Clone(netSeeds)
	if s := os.Getenv("TARN_OPTIONS_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds, length = []uint64{n}, 0
	}
	failed, n := 0, 0
	for began := time.Now(); failed < 5 && (len(seeds) > 0 || time.Since(began) < length); n++ {
		seed := rand.Uint64()
		if len(seeds) > 0 {
			seed, seeds = seeds[0], seeds[1:]
		}
		tr := drawNet(seed)
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			want := tr.run(t, netWay{"grpc-go", "grpc-go", rpc.GRPC, false})
			for _, w := range netWays {
				if tr.script != nil && !tr.script.follows(w.protocol) {
					continue
				}
				got := tr.comparable(w, tr.run(t, w))
				if want := tr.comparable(w, want); !slices.Equal(got, want) {
					t.Errorf("%v\n%s:\n  missing %q\n  besides %q", tr, w.name, without(want, got), without(got, want))
				}
			}
		})
		if !ok {
			failed++
		}
	}
	t.Logf("%d trials", n)
}

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
