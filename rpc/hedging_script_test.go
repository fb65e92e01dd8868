package rpc_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// hedgeLog is a service that records when each attempt comes, and answers it as its script says.
type hedgeLog struct {
	testService
	mu     sync.Mutex
	begin  time.Time
	at     []time.Duration // of attempts, since begin
	said   []string        // grpc-previous-rpc-attempts of each
	live   atomic.Int32
	ended  []error // of attempts whose context ended first
	script []func(ctx context.Context) error
}

func newHedgeLog(script ...func(ctx context.Context) error) *hedgeLog {
	l := &hedgeLog{script: script}
	l.unary = func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if err := l.attempt(ctx); err != nil {
			return nil, err
		}
		return &pb.SimpleResponse{Payload: in.Payload}, nil
	}
	l.duplex = func(s pb.TestService_FullDuplexCallServer) error {
		if err := l.attempt(s.Context()); err != nil {
			return err
		}
		return echoStream(s)
	}
	return l
}

func (l *hedgeLog) attempt(ctx context.Context) error {
	l.live.Add(1)
	defer l.live.Add(-1)
	md, _ := metadata.FromIncomingContext(ctx)
	l.mu.Lock()
	n := len(l.at)
	if n == 0 {
		l.begin = time.Now()
	}
	l.at = append(l.at, time.Since(l.begin))
	l.said = append(l.said, fmt.Sprint(md["grpc-previous-rpc-attempts"]))
	l.mu.Unlock()
	if n >= len(l.script) {
		n = len(l.script) - 1
	}
	err := l.script[n](ctx)
	if ctx.Err() != nil {
		l.mu.Lock()
		l.ended = append(l.ended, ctx.Err())
		l.mu.Unlock()
	}
	return err
}

func (l *hedgeLog) times() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.at)
}

// The actions of a script.
func after(d time.Duration, code codes.Code) func(context.Context) error {
	return func(ctx context.Context) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			if code == codes.OK {
				return nil
			}
			return status.Error(code, "scripted")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func never(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// answering sends a header at once and its status after d.
func answering(d time.Duration, code codes.Code) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := grpc.SendHeader(ctx, metadata.Pairs("answers", "yes")); err != nil {
			return err
		}
		return after(d, code)(ctx)
	}
}

func pushback(d time.Duration, ms string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", ms)); err != nil {
			return err
		}
		return after(d, codes.Unavailable)(ctx)
	}
}

func hedging(config string) []rpc.DialOption {
	return []rpc.DialOption{rpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"hedgingPolicy":` + config + `}]}`)}
}

const hedgeThree = `{"maxAttempts":3,"hedgingDelay":"1s","nonFatalStatusCodes":["UNAVAILABLE","ABORTED"]}`

// hedgingScene is what the attempts of a hedged call do, and what becomes of the call.
type hedgingScene struct {
	name   string
	policy string
	script []func(context.Context) error
	hedgingResult
	web *hedgingResult // over Connect and gRPC-Web, whose headers say nothing of the status; nil: the same
}

type hedgingResult struct {
	at    string // when attempts come
	took  time.Duration
	code  codes.Code
	ended int // attempts that were cancelled; -1: any number
}

var hedgingScenes = []hedgingScene{
	{"answered before the delay", hedgeThree, []func(context.Context) error{after(time.Second/2, codes.OK)}, hedgingResult{"[0s]", time.Second / 2, codes.OK, 0}, nil},
	{"the second answers", hedgeThree, []func(context.Context) error{never, after(time.Second/2, codes.OK)}, hedgingResult{"[0s 1s]", 3 * time.Second / 2, codes.OK, 1}, nil},
	{"the first answers in the end", hedgeThree, []func(context.Context) error{after(5*time.Second, codes.OK), never}, hedgingResult{"[0s 1s 2s]", 5 * time.Second, codes.OK, 2}, nil},
	{"all at once", `{"maxAttempts":4}`, []func(context.Context) error{after(time.Second, codes.OK), after(time.Second, codes.OK), never}, hedgingResult{"[0s 0s 0s 0s]", time.Second, codes.OK, -1}, nil},
	{"not fatal: the next at once", hedgeThree, []func(context.Context) error{after(time.Second/4, codes.Unavailable), never, after(time.Second, codes.OK)}, hedgingResult{"[0s 250ms 1.25s]", 9 * time.Second / 4, codes.OK, 1}, nil},
	{"fatal", hedgeThree, []func(context.Context) error{never, after(time.Second/2, codes.NotFound)}, hedgingResult{"[0s 1s]", 3 * time.Second / 2, codes.NotFound, 1}, nil},
	{"fatal without codes", `{"maxAttempts":3,"hedgingDelay":"1s"}`, []func(context.Context) error{after(time.Second/4, codes.Unavailable)}, hedgingResult{"[0s]", time.Second / 4, codes.Unavailable, 0}, nil},
	{"all fail", hedgeThree, []func(context.Context) error{after(time.Second/4, codes.Unavailable)}, hedgingResult{"[0s 250ms 500ms]", 3 * time.Second / 4, codes.Unavailable, 0}, nil},
	{"all fail, the last status counts", hedgeThree, []func(context.Context) error{after(5*time.Second, codes.Aborted), after(time.Second, codes.Unavailable)}, hedgingResult{"[0s 1s 2s]", 5 * time.Second, codes.Aborted, 0}, nil},
	{"pushback", hedgeThree, []func(context.Context) error{pushback(time.Second/4, "3000"), never, after(time.Second/4, codes.OK)}, hedgingResult{"[0s 3.25s 4.25s]", 9 * time.Second / 2, codes.OK, 1}, nil},
	{"no more", hedgeThree, []func(context.Context) error{after(8*time.Second, codes.OK), pushback(time.Second/4, "-1"), never}, hedgingResult{"[0s 1s]", 8 * time.Second, codes.OK, 0}, nil},
	{"no more, by a number too large", hedgeThree, []func(context.Context) error{after(8*time.Second, codes.OK), pushback(time.Second/4, "9223372036855"), never}, hedgingResult{"[0s 1s]", 8 * time.Second, codes.OK, 0}, nil},
	{"no more and none left", hedgeThree, []func(context.Context) error{pushback(time.Second/4, "-1")}, hedgingResult{"[0s]", time.Second / 4, codes.Unavailable, 0}, nil},
	{"a header commits the call", hedgeThree, []func(context.Context) error{answering(5*time.Second, codes.OK), never}, hedgingResult{"[0s]", 5 * time.Second, codes.OK, 0}, &hedgingResult{"[0s 1s 2s]", 5 * time.Second, codes.OK, 2}},
	{"the second's header commits the call", hedgeThree, []func(context.Context) error{after(4*time.Second, codes.OK), answering(5*time.Second, codes.Unavailable), never}, hedgingResult{"[0s 1s]", 6 * time.Second, codes.Unavailable, 1}, &hedgingResult{"[0s 1s 2s]", 4 * time.Second, codes.OK, 2}},
	{"deadline", hedgeThree, []func(context.Context) error{never}, hedgingResult{"[0s 1s 2s]", 20 * time.Second, codes.DeadlineExceeded, 3}, nil},
	{"bounded by the client", `{"maxAttempts":9,"hedgingDelay":"1s"}`, []func(context.Context) error{never}, hedgingResult{"[0s 1s 2s 3s 4s]", 20 * time.Second, codes.DeadlineExceeded, 5}, nil},
}

// play makes a call as the scene says, and checks that all of it ends when the call returns.
func (c *hedgingScene) play(t *testing.T, l *hedgeLog, count *attemptCount, cl pb.TestServiceClient, want hedgingResult) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	began := time.Now()
	err := sentCall(ctx, cl, "unary")
	if took := time.Since(began); took != want.took {
		t.Errorf("the call took %v, want %v", took, want.took)
	}
	if b, e := count.begins.Load(), count.ends.Load(); b != e || b == 0 {
		t.Errorf("when the call returns, %d attempts have begun and %d have ended", b, e)
	}
	wantCode(t, err, want.code)
	synctest.Wait()
	if got := l.times(); got != want.at {
		t.Errorf("attempts at %v, want %v", got, want.at)
	}
	if n := l.live.Load(); n != 0 {
		t.Errorf("%d attempts outlive their call", n)
	}
	if got := len(l.ended); want.ended >= 0 && got != want.ended {
		t.Errorf("%d attempts were cancelled, want %d", got, want.ended)
	}
	if c.policy == hedgeThree && len(l.said) == 3 && fmt.Sprint(l.said) != "[[] [1] [2]]" {
		t.Errorf("grpc-previous-rpc-attempts are %v", l.said)
	}
}

// playPanic makes a call whose codec panics when it decodes the response, and checks that all of it ends when the panic reaches the caller.
func (l *hedgeLog) playPanic(t *testing.T, cc *rpc.ClientConn) {
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the call did not panic")
			}
		}()
		_, _ = pb.NewTestServiceClient(cc).UnaryCall(t.Context(), &pb.SimpleRequest{}, grpc.ForceCodecV2(decodingPanics{encoding.GetCodecV2("proto")}))
	}()
	synctest.Wait()
	if n := l.live.Load(); n != 0 {
		t.Errorf("%d attempts outlive their call", n)
	}
	if e := cc.Endpoint(); e.Active != 0 {
		t.Errorf("%d calls are active", e.Active)
	}
}

type decodingPanics struct{ encoding.CodecV2 }

func (decodingPanics) Unmarshal(mem.BufferSlice, any) error { panic("as asked") }

// attemptCount counts attempts.
type attemptCount struct{ begins, ends atomic.Int32 }

func (e *attemptCount) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (e *attemptCount) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s.(type) {
	case *stats.Begin:
		e.begins.Add(1)
	case *stats.End:
		e.ends.Add(1)
	}
}

func (e *attemptCount) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (e *attemptCount) HandleConn(context.Context, stats.ConnStats) {}
