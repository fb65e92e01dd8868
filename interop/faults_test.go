package interop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// fault is a fault of the connections while the suite's cases run.
type fault struct {
	name string
	// lossy: connections break, so that calls may end with UNAVAILABLE. Without it every case must succeed.
	lossy bool
	link  func(over context.Context, l *faultnet.Link)
	// restart: servers are stopped and started anew.
	restart bool
}

// anyPlace is the number of bytes after which a fault occurs; its logarithm is about uniformly distributed.
func anyPlace() int64 { return rand.Int64N(1 << (4 + rand.IntN(17))) }

// flow is either direction of a link.
func flow(l *faultnet.Link) *faultnet.Flow {
	if rand.IntN(2) == 0 {
		return l.ToClient
	}
	return l.ToServer
}

// stall stops a direction repeatedly, each time for up to 50 ms, until the trial is over. If end is not nil, one
// of the stalls ends with a call of it.
func stall(over context.Context, l *faultnet.Link, end func()) {
	f := flow(l)
	defer f.Resume()
	pause := func() bool {
		timer := time.NewTimer(time.Duration(rand.IntN(50)) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-over.Done():
			return false
		}
	}
	for pause() {
		f.Stall()
		if !pause() {
			return
		}
		if end != nil && rand.IntN(8) == 0 {
			end()
			return
		}
		f.Resume()
	}
}

var faults = []fault{
	{name: "FIN", lossy: true, link: func(_ context.Context, l *faultnet.Link) { flow(l).CutAfter(anyPlace(), faultnet.FIN) }},
	{name: "RST", lossy: true, link: func(_ context.Context, l *faultnet.Link) { flow(l).CutAfter(anyPlace(), faultnet.RST) }},
	{name: "stall", link: func(over context.Context, l *faultnet.Link) { go stall(over, l, nil) }},
	{name: "stall,RST", lossy: true, link: func(over context.Context, l *faultnet.Link) { go stall(over, l, func() { l.Break(faultnet.RST) }) }},
	{name: "bytes", link: func(_ context.Context, l *faultnet.Link) { l.ToServer.Chunk(1); l.ToClient.Chunk(1) }},
	{name: "restart", lossy: true, link: func(context.Context, *faultnet.Link) {}, restart: true},
}

// faultyCases are those of the suite that make calls on one connection.
func faultyCases() []faultyCase {
	return []faultyCase{
		{"empty_unary", interop.DoEmptyUnaryCall}, {"large_unary", interop.DoLargeUnaryCall},
		{"client_streaming", interop.DoClientStreaming}, {"server_streaming", interop.DoServerStreaming},
		{"ping_pong", interop.DoPingPong}, {"empty_stream", interop.DoEmptyStream},
		{"timeout_on_sleeping_server", interop.DoTimeoutOnSleepingServer}, {"cancel_after_begin", interop.DoCancelAfterBegin},
		{"cancel_after_first_response", interop.DoCancelAfterFirstResponse}, {"status_code_and_message", interop.DoStatusCodeAndMessage},
		{"special_status_message", interop.DoSpecialStatusMessage}, {"custom_metadata", interop.DoCustomMetadata},
	}
}

type faultyCase struct {
	name string
	run  func(context.Context, testpb.TestServiceClient, ...grpc.CallOption)
}

// fillBody fills b with bytes that identify its message by seed, so that a byte of another message is detected.
func fillBody(b []byte, seed uint64) {
	if len(b) < 8 {
		return
	}
	binary.LittleEndian.PutUint64(b, seed)
	for i := 8; i < len(b); i++ {
		b[i] = byte(seed>>(i%8*8)) ^ byte(i)
	}
}

// seedOf returns the seed that b was filled with, or false when a byte does not match it.
func seedOf(b []byte) (uint64, bool) {
	if len(b) < 8 {
		return 0, true
	}
	seed := binary.LittleEndian.Uint64(b)
	for i := 8; i < len(b); i++ {
		if b[i] != byte(seed>>(i%8*8))^byte(i) {
			return 0, false
		}
	}
	return seed, true
}

// payloadOf is the body of a message of the suite, nil when it has none.
func payloadOf(m any) []byte {
	if p, ok := m.(interface{ GetPayload() *testpb.Payload }); ok {
		return p.GetPayload().GetBody()
	}
	return nil
}

// errEndedOK: the server ended the call with OK before it had received all of it.
var errEndedOK = errors.New("the call ended with OK before it was sent")

// errUnaryEOF: a unary call ended with io.EOF, which is not a status.
var errUnaryEOF = errors.New("a unary call ended with io.EOF")

var errForeignAnswer = errors.New("the answer is another call's")

var errForeign = errors.New("a message has bytes of another")

// lastError is the error of a case's last call, which is the cause of the case's failure.
type lastError struct {
	err error
	eof bool // SendMsg of a stream has returned io.EOF
}

type lastErrorKey struct{}

// forget clears the last error at the beginning of a call.
func forget(ctx context.Context) { *ctx.Value(lastErrorKey{}).(*lastError) = lastError{} }

func note(ctx context.Context, err error) {
	if err == nil || err == io.EOF {
		return
	}
	ctx.Value(lastErrorKey{}).(*lastError).err = err
}

func fillUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	forget(ctx)
	seed := rand.Uint64()
	fillBody(payloadOf(req), seed)
	ctx = withSeed(ctx, seed)
	var trailer metadata.MD
	err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Trailer(&trailer))...)
	if whose, ok := seedIn(trailer); ok && whose != seed {
		err = fmt.Errorf("%s %x %v %v: %w", method, seed, err, trailer, errForeignAnswer)
	} else if err == io.EOF {
		err = errUnaryEOF
	} else if err == nil {
		got, ok := seedOf(payloadOf(reply))
		if !ok || len(payloadOf(req)) >= 8 && len(payloadOf(reply)) >= 8 && got != seed {
			err = errForeign
		}
	}
	note(ctx, err)
	return err
}

func fillStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	forget(ctx)
	seed := rand.Uint64()
	s, err := begin(withSeed(ctx, seed), desc, cc, method, opts...)
	note(ctx, err)
	if err != nil {
		return nil, err
	}
	return filledStream{s, seed}, nil
}

type filledStream struct {
	grpc.ClientStream
	seed uint64
}

func (filledStream) String() string { return "stream" } // the suite prints streams, which are not for printing

func (s filledStream) SendMsg(m any) error {
	fillBody(payloadOf(m), s.seed)
	err := s.ClientStream.SendMsg(m)
	if err == io.EOF { // RecvMsg returns the reason
		s.Context().Value(lastErrorKey{}).(*lastError).eof = true
		for e := error(nil); e == nil; {
			e = s.RecvMsg(new(testpb.StreamingOutputCallResponse))
			if e == io.EOF {
				e = errEndedOK
			}
			note(s.Context(), e)
		}
	}
	note(s.Context(), err)
	return err
}

func (s filledStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil { // the trailer is available only now
		if whose, ok := seedIn(s.Trailer()); ok && whose != s.seed {
			return fmt.Errorf("%T %x %v %v: %w", m, s.seed, err, s.Trailer(), errForeignAnswer)
		}
	}
	if err == nil {
		if seed, ok := seedOf(payloadOf(m)); !ok || len(payloadOf(m)) >= 8 && seed != s.seed {
			err = errForeign
		}
	}
	note(s.Context(), err)
	return err
}

func checkUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	seed, ok := seedIn(md)
	grpc.SetTrailer(ctx, metadata.Pairs(seedKey, strconv.FormatUint(seed, 16)))
	whose, intact := seedOf(payloadOf(req))
	if !ok || !intact || len(payloadOf(req)) >= 8 && whose != seed {
		return nil, status.Error(codes.DataLoss, errForeign.Error())
	}
	resp, err := handle(ctx, req)
	if err == nil {
		fillBody(payloadOf(resp), seed)
	}
	return resp, err
}

// seedKey is the key of the metadata, and of the trailer, that has the seed of a call's messages.
const seedKey = "x-seed"

func withSeed(ctx context.Context, seed uint64) context.Context {
	return metadata.AppendToOutgoingContext(ctx, seedKey, strconv.FormatUint(seed, 16))
}

func seedIn(md metadata.MD) (uint64, bool) {
	seed, err := strconv.ParseUint(strings.Join(md[seedKey], ","), 16, 64)
	return seed, err == nil
}

func checkStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	md, _ := metadata.FromIncomingContext(s.Context())
	seed, ok := seedIn(md)
	if !ok {
		return status.Error(codes.DataLoss, errForeign.Error())
	}
	s.SetTrailer(metadata.Pairs(seedKey, strconv.FormatUint(seed, 16)))
	return handle(srv, checkedStream{s, seed})
}

type checkedStream struct {
	grpc.ServerStream
	seed uint64
}

func (s checkedStream) SendMsg(m any) error {
	fillBody(payloadOf(m), s.seed)
	return s.ServerStream.SendMsg(m)
}

func (s checkedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		if seed, ok := seedOf(payloadOf(m)); !ok || len(payloadOf(m)) >= 8 && seed != s.seed {
			return status.Error(codes.DataLoss, errForeign.Error())
		}
	}
	return err
}

type gracefulServer interface {
	server
	GracefulStop()
}

// trial is a server and a client of one pairing, with the network's faults between them.
type trial struct {
	t     *testing.T
	sec   security
	tarn  bool // the server
	fault fault
	over  context.Context // ended: connections have no faults any more
	mu    sync.Mutex
	lis   *faultnet.Listener
}

func (f *trial) newServer() gracefulServer {
	if f.tarn {
		opts := []rpc.ServerOption{rpc.Pool(tarntest.NewPool(f.t)), rpc.WaitForHandlers(true),
			rpc.UnaryInterceptor(checkUnary), rpc.StreamInterceptor(checkStream)}
		if f.sec.server != nil {
			opts = append(opts, rpc.Creds(f.sec.server))
		}
		return rpc.NewServer(opts...)
	}
	opts := []grpc.ServerOption{grpc.WaitForHandlers(true), grpc.UnaryInterceptor(checkUnary), grpc.StreamInterceptor(checkStream)}
	if f.sec.server != nil {
		opts = append(opts, grpc.Creds(f.sec.server))
	}
	return grpc.NewServer(opts...)
}

// serve runs a server until the function it returns is called.
func (f *trial) serve() (stop func(graceful bool)) {
	lis := faultnet.Listen(f.t, faultnet.TCP)
	lis.Faults(func(l *faultnet.Link) {
		if f.over.Err() == nil {
			f.fault.link(f.over, l)
		}
	})
	s := f.newServer()
	testpb.RegisterTestServiceServer(s, interop.NewTestServer())
	done := make(chan error, 1)
	go func() { done <- s.Serve(lis) }()
	f.mu.Lock()
	f.lis = lis
	f.mu.Unlock()
	return func(graceful bool) {
		within(f.t, "the server's end", func() {
			if graceful {
				stop := time.AfterFunc(500*time.Millisecond, s.Stop)
				s.GracefulStop()
				stop.Stop()
			}
			s.Stop()
			<-done
		})
	}
}

func (f *trial) dial(ctx context.Context, _ string) (net.Conn, error) {
	f.mu.Lock()
	lis := f.lis
	f.mu.Unlock()
	return lis.Dial(ctx, "", "")
}

func (f *trial) client(tarn bool) client {
	params := grpc.ConnectParams{MinConnectTimeout: 5 * time.Second,
		Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1.5, MaxDelay: 20 * time.Millisecond}}
	var cc client
	var err error
	if tarn {
		cc, err = rpc.NewClient("passthrough:///x", rpc.WithPool(tarntest.NewPool(f.t)), rpc.WithTransportCredentials(f.sec.client),
			rpc.WithContextDialer(f.dial), rpc.WithConnectParams(params), rpc.WithUnaryInterceptor(fillUnary), rpc.WithStreamInterceptor(fillStream))
	} else {
		cc, err = grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(f.sec.client),
			grpc.WithContextDialer(f.dial), grpc.WithConnectParams(params), grpc.WithUnaryInterceptor(fillUnary), grpc.WithStreamInterceptor(fillStream))
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return cc
}

// hang is the time after which a call or a shutdown is considered to hang.
const hang = time.Minute

// within panics, with all stacks, when f does not return in time.
func within(t *testing.T, what string, f func()) {
	timer := time.AfterFunc(hang, func() { panic(t.Name() + ": still waiting for " + what) })
	defer timer.Stop()
	f()
}

// outcomes counts the outcomes of cases.
type outcomes struct {
	mu     sync.Mutex
	counts map[string]int
	t      *testing.T
	lossy  bool
	tarn   bool // the client
}

func (o *outcomes) add(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.counts[what]++
}

// one runs one case and records its outcome: success, or UNAVAILABLE because its connection broke.
func (o *outcomes) one(tc testpb.TestServiceClient, c faultyCase) {
	last := new(lastError)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), lastErrorKey{}, last))
	defer cancel()
	if rand.IntN(2) == 0 { // the others have no deadline
		ctx, cancel = context.WithTimeout(ctx, hang)
		defer cancel()
	}
	var opts []grpc.CallOption
	if rand.IntN(2) == 0 {
		opts = append(opts, grpc.WaitForReady(true))
	}
	defer func() {
		switch r := recover(); {
		case r == nil:
			o.add("OK")
		case !o.tarn && c.name == "cancel_after_begin" && last.err == nil:
			o.add("answered before cancelled") // grpc-go's client learns of its cancellation on another goroutine
		case o.lossy && status.Code(last.err) == codes.Unavailable:
			o.add("UNAVAILABLE")
		case !o.tarn && o.lossy && (errors.Is(last.err, errUnaryEOF) || last.eof):
			// grpc-go's client can end a call with io.EOF when the first stream was not processed and the connection of
			// the second breaks before the message is written: see TestReplayOnBrokenConnection.
			o.add("io.EOF")
		default:
			o.add(fmt.Sprint(status.Code(last.err)))
			o.t.Errorf("%s: %v (the call's error: %v)", c.name, r, last.err)
		}
	}()
	within(o.t, "a case of the suite", func() { c.run(ctx, tc, opts...) })
}

func (o *outcomes) String() string {
	var b strings.Builder
	for k, n := range o.counts {
		fmt.Fprintf(&b, " %s %d", k, n)
	}
	return b.String()
}

// TestFaults runs the cases of grpc-go's suite while connections break, stall, deliver one byte at a time, or servers are
// restarted. Each case succeeds or ends with UNAVAILABLE, no message has bytes of another, nothing hangs
// without a deadline, and no buffer and no goroutine is left. TARN_LONG=1 makes each part five seconds long, and also runs
// the cases with grpc-go on both sides.
func TestFaults(t *testing.T) {
	long := 250 * time.Millisecond
	type pairing struct {
		name           string
		client, server bool // Tarn's
	}
	pairings := []pairing{{"tarn-tarn", true, true}, {"tarn-grpc", true, false}, {"grpc-tarn", false, true}}
	if os.Getenv("TARN_LONG") != "" {
		long = 5 * time.Second
		pairings = append(pairings, pairing{"grpc-grpc", false, false})
	}
	for _, sec := range securities(t) {
		for _, fa := range faults {
			for _, p := range pairings {
				t.Run(sec.name+"/"+fa.name+"/"+p.name, func(t *testing.T) {
					before := runtime.NumGoroutine()
					t.Run("run", func(t *testing.T) { runFault(t, sec, fa, p.client, p.server, long) })
					within(t, "goroutines to end", func() {
						for runtime.NumGoroutine() > before {
							runtime.Gosched()
						}
					})
				})
			}
		}
	}
}

func runFault(t *testing.T, sec security, fa fault, tarnClient, tarnServer bool, long time.Duration) {
	over, end := context.WithCancel(context.Background())
	defer end()
	f := &trial{t: t, sec: sec, tarn: tarnServer, fault: fa, over: over}
	stop := f.serve()
	cc := f.client(tarnClient)
	tc := testpb.NewTestServiceClient(cc)
	o := &outcomes{counts: map[string]int{}, t: t, lossy: fa.lossy, tarn: tarnClient}
	cases := faultyCases()
	if fa.name == "bytes" && long < time.Second {
		cases = slices.DeleteFunc(cases, func(c faultyCase) bool { return c.name == "large_unary" }) // 600,000 writes
	}
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				o.one(tc, cases[rand.IntN(len(cases))])
			}
		})
	}
	for fa.restart && ctx.Err() == nil {
		select {
		case <-time.After(min(time.Second, long/3)):
			before := stop
			f.lis.Close() // this goroutine alone sets it
			stop = f.serve()
			before(rand.IntN(2) == 0)
		case <-ctx.Done():
		}
	}
	wg.Wait()
	end()
	f.heal(tc)
	t.Log(o)
	within(t, "Close", func() { cc.Close() })
	stop(false)
}

// heal makes a call on a connection without faults: the client reconnects.
func (f *trial) heal(tc testpb.TestServiceClient) {
	for {
		last := new(lastError)
		ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), lastErrorKey{}, last), hang)
		_, err := tc.EmptyCall(ctx, &testpb.Empty{}, grpc.WaitForReady(true))
		cancel()
		if err == nil {
			return
		}
		if status.Code(err) != codes.Unavailable { // the connection that was there still has its fault
			f.t.Fatal(err)
		}
	}
}
