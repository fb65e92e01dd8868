package rpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

type clusterKey struct{}

// byCluster picks the address that the call's context names.
type byCluster struct{}

func (byCluster) Build(info base.PickerBuildInfo) balancer.Picker {
	p := clusterPicker{}
	for sc, i := range info.ReadySCs {
		p[i.Address.Addr] = sc
	}
	return p
}

type clusterPicker map[string]balancer.SubConn

func (p clusterPicker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	if sc := p[info.Ctx.Value(clusterKey{}).(string)]; sc != nil {
		return balancer.PickResult{SubConn: sc}, nil
	}
	return balancer.PickResult{}, balancer.ErrNoSubConnAvailable
}

// routes is a selector that chooses a cluster by the call's metadata.
type routes struct{ live atomic.Int64 }

func (r *routes) SelectConfig(i rpc.CallInfo) (rpc.CallConfig, error) {
	md, _ := metadata.FromOutgoingContext(i.Context)
	to := md["to"]
	switch {
	case i.Method == "/grpc.testing.TestService/EmptyCall":
		return rpc.CallConfig{}, status.Error(codes.PermissionDenied, "no route")
	case len(to) == 0:
		return rpc.CallConfig{}, errors.New("no route for this")
	case to[0] == "illegal":
		return rpc.CallConfig{}, status.Error(codes.NotFound, "no route")
	}
	r.live.Add(1)
	out := rpc.CallConfig{Context: context.WithValue(i.Context, clusterKey{}, to[0]), Timeout: 5 * time.Second,
		Ended: func() { r.live.Add(-1) }}
	retry := rpc.RetryPolicy{MaxAttempts: 2, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
		BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Aborted}}
	switch policy := append(md["policy"], "retry")[0]; policy {
	case "hedging":
		out.Hedging = &rpc.HedgingPolicy{MaxAttempts: 2}
	case "both":
		out.Retry, out.Hedging = &retry, &rpc.HedgingPolicy{MaxAttempts: 2}
	case "hedging of one attempt":
		out.Hedging = &rpc.HedgingPolicy{MaxAttempts: 1}
	case "retry without codes":
		out.Retry, retry.RetryableStatusCodes = &retry, nil
	default:
		out.Retry = &retry
	}
	return out, nil
}

// A resolver's selector decides on each call: the context that pickers get, the timeout, the retry or hedging
// policy, errors; and its Ended is called at the end. A call for which it returns an invalid policy fails.
func TestConfigSelector(t *testing.T) {
	balancer.Register(base.NewBalancerBuilder("by_cluster_test", byCluster{}, base.Config{}))
	var tries atomic.Int64
	attempts := make(chan struct{})
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > 5*time.Second { // the test's own is 20 s
			return nil, status.Error(codes.Internal, "the deadline is not the selector's")
		}
		if in.FillOauthScope { // answers when two attempts have come
			select {
			case attempts <- struct{}{}:
			case <-attempts:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if in.FillUsername && tries.Add(1) == 1 {
			return nil, status.Error(codes.Aborted, "again")
		}
		return &pb.SimpleResponse{}, nil
	}}
	one, two := startBackend(t), startBackend(t)
	_, three := startTarn(t, svc)
	sel := &routes{}
	state := stateOf(one, two)
	state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: three}}})
	state.Addresses = append(state.Addresses, resolver.Address{Addr: three})
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(rpc.SetConfigSelector(state, sel))
	cc := dialNames(t, r, `{"by_cluster_test":{}}`)
	c := pb.NewTestServiceClient(cc)
	to := func(addr string) context.Context { return metadata.AppendToOutgoingContext(ctxFor(t), "to", addr) }
	for range 5 {
		if _, err := c.UnaryCall(to(two.addr), &pb.SimpleRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := one.hits.Load(), two.hits.Load(); n != 0 || m != 5 {
		t.Errorf("%d calls at the other cluster and %d of 5 at the one that was selected", n, m)
	}
	if _, err := c.UnaryCall(to(three), &pb.SimpleRequest{FillUsername: true}); err != nil || tries.Load() != 2 {
		t.Errorf("after %d tries: %v", tries.Load(), err)
	}
	with := func(policy string) context.Context {
		return metadata.AppendToOutgoingContext(to(three), "policy", policy)
	}
	if _, err := c.UnaryCall(with("hedging"), &pb.SimpleRequest{FillOauthScope: true}); err != nil {
		t.Errorf("a hedged call: %v", err)
	}
	for _, bad := range []string{"both", "hedging of one attempt", "retry without codes"} {
		_, err := c.UnaryCall(with(bad), &pb.SimpleRequest{})
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "config selector") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	s, err := c.FullDuplexCall(to(three))
	if err != nil {
		t.Fatal(err)
	}
	if n := sel.live.Load(); n != 1 {
		t.Errorf("%d calls live, want the stream", n)
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err == nil {
		t.Error("the stream does not end")
	}
	_, err = c.EmptyCall(ctxFor(t), &pb.Empty{})
	wantCode(t, err, codes.PermissionDenied)
	_, err = c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.Unavailable)
	_, err = c.UnaryCall(to("illegal"), &pb.SimpleRequest{})
	wantCode(t, err, codes.Internal)
	if n := sel.live.Load(); n != 0 {
		t.Errorf("%d calls have not ended", n)
	}
	r.UpdateState(state) // without a selector
	_, err = c.EmptyCall(context.WithValue(ctxFor(t), clusterKey{}, one.addr), &pb.Empty{})
	wantCode(t, err, codes.OK)
}

// funcSelector is a selector that is a function.
type funcSelector func(rpc.CallInfo) (rpc.CallConfig, error)

func (f funcSelector) SelectConfig(i rpc.CallInfo) (rpc.CallConfig, error) { return f(i) }

// hookPolicy is a balancer that calls the function in a state's attributes before it processes the state, and sends calls where their context
// says.
type hookPolicy struct{ balancer.Builder }

type hookKey struct{}

func (hookPolicy) Name() string { return "hooked_by_cluster_test" }

func (b hookPolicy) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return hooked{b.Builder.Build(cc, opts)}
}

type hooked struct{ balancer.Balancer }

func (b hooked) UpdateClientConnState(s balancer.ClientConnState) error {
	if f, ok := s.ResolverState.Attributes.Value(hookKey{}).(func()); ok {
		f()
	}
	return b.Balancer.UpdateClientConnState(s)
}

func (b hooked) ExitIdle() { b.Balancer.(balancer.ExitIdler).ExitIdle() }

// A selector is used when the balancer has got its state, and the one before it is not called when UpdateState has returned, nor after Close.
func TestConfigSelectorAfterBalancer(t *testing.T) {
	balancer.Register(hookPolicy{base.NewBalancerBuilder("hooked_by_cluster_test", byCluster{}, base.Config{})})
	bs := startBackends(t, 2)
	var retired [2]atomic.Bool
	var chosen atomic.Int64
	selector := func(n int) rpc.ConfigSelector {
		return funcSelector(func(i rpc.CallInfo) (rpc.CallConfig, error) {
			if retired[n].Load() {
				t.Errorf("selector %d is called", n)
			}
			chosen.Store(int64(n))
			return rpc.CallConfig{Context: context.WithValue(i.Context, clusterKey{}, bs[n].addr)}, nil
		})
	}
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(rpc.SetConfigSelector(stateOf(bs[0]), selector(0)))
	cc := dialNames(t, r, `{"hooked_by_cluster_test":{}}`)
	c := pb.NewTestServiceClient(cc)
	call := func(want int64) {
		t.Helper()
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil || chosen.Load() != want {
			t.Errorf("with selector %d, not %d: %v", chosen.Load(), want, err)
		}
	}
	call(0)
	next := rpc.SetConfigSelector(stateOf(bs...), selector(1))
	next.Attributes = next.Attributes.WithValue(hookKey{}, func() { call(0) })
	r.UpdateState(next)
	retired[0].Store(true)
	call(1)
	if err := cc.Close(); err != nil {
		t.Fatal(err)
	}
	retired[1].Store(true)
	_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{})
	wantCode(t, err, codes.Canceled)
}

// Calls go on without a loss while selectors with a cluster of their own follow one another.
func TestConfigSelectorsUnderLoad(t *testing.T) {
	balancer.Register(base.NewBalancerBuilder("by_cluster_load_test", byCluster{}, base.Config{}))
	bs := startBackends(t, 2)
	selector := func(n int) (rpc.ConfigSelector, *atomic.Bool) {
		retired := new(atomic.Bool)
		return funcSelector(func(i rpc.CallInfo) (rpc.CallConfig, error) {
			if retired.Load() {
				t.Error("a selector is called after its successor")
			}
			return rpc.CallConfig{Context: context.WithValue(i.Context, clusterKey{}, bs[n%2].addr)}, nil
		}), retired
	}
	r := manual.NewBuilderWithScheme("names")
	first, last := selector(0)
	r.InitialState(rpc.SetConfigSelector(stateOf(bs...), first))
	c := pb.NewTestServiceClient(dialNames(t, r, `{"by_cluster_load_test":{}}`))
	if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan error)
	for range 4 {
		go func() {
			for {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	for n := 1; n < 100; n++ {
		next, retired := selector(n)
		r.UpdateState(rpc.SetConfigSelector(stateOf(bs...), next))
		last.Store(true)
		last = retired
	}
	close(stop)
	for range 4 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// The selector gets the authority that the call's options say, otherwise the client's.
func TestConfigSelectorAuthority(t *testing.T) {
	b := startBackend(t)
	var got atomic.Value
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(rpc.SetConfigSelector(stateOf(b), funcSelector(func(i rpc.CallInfo) (rpc.CallConfig, error) {
		got.Store(i.Authority)
		return rpc.CallConfig{}, nil
	})))
	c := pb.NewTestServiceClient(dialNames(t, r, `{"pick_first":{}}`))
	for want, opts := range map[string][]grpc.CallOption{"svc": nil, "other": {grpc.CallAuthority("other")}} {
		if _, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, opts...); err != nil {
			t.Error(err)
		}
		if got.Load() != want {
			t.Errorf("authority %q, want %q", got.Load(), want)
		}
	}
}

// Committed is called when the header of a stream has come, before it ends; for an attempt that is made again it is not.
func TestConfigSelectorCommitted(t *testing.T) {
	goOn := make(chan struct{})
	var tries atomic.Int64
	svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		if tries.Add(1) == 1 {
			return status.Error(codes.Aborted, "again")
		}
		if err := s.SendHeader(nil); err != nil {
			return err
		}
		<-goOn
		return s.Send(&pb.StreamingOutputCallResponse{})
	}}
	_, addr := startTarn(t, svc)
	committed, ended := make(chan int64, 2), make(chan struct{}, 2)
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(rpc.SetConfigSelector(stateOf(&backend{addr: addr}), funcSelector(func(i rpc.CallInfo) (rpc.CallConfig, error) {
		return rpc.CallConfig{Committed: func() { committed <- tries.Load() }, Ended: func() { ended <- struct{}{} },
			Retry: &rpc.RetryPolicy{MaxAttempts: 2, InitialBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
				BackoffMultiplier: 1, RetryableStatusCodes: []codes.Code{codes.Aborted}}}, nil
	})))
	c := pb.NewTestServiceClient(dialNames(t, r, `{"pick_first":{}}`))
	s, err := c.FullDuplexCall(ctxFor(t))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if n := <-committed; n != 2 {
			t.Errorf("committed after %d attempts", n)
		}
		if len(ended) > 0 {
			t.Error("ended before committed")
		}
		close(goOn)
	}()
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	<-ended
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	<-ended
	if <-committed; len(committed)+len(ended) != 0 {
		t.Error("committed or ended twice")
	}
}

// wrapped is an interceptor's stream, which counts.
type wrapped struct {
	grpc.ClientStream
	log *[]string
}

func (w wrapped) SendMsg(m any) error {
	*w.log = append(*w.log, "send")
	return w.ClientStream.SendMsg(m)
}

func (w wrapped) CloseSend() error {
	*w.log = append(*w.log, "close")
	return w.ClientStream.CloseSend()
}

func (w wrapped) RecvMsg(m any) error {
	err := w.ClientStream.RecvMsg(m)
	text := "received"
	if err != nil {
		text = err.Error()
	}
	*w.log = append(*w.log, text)
	return err
}

// answer is a stream that is not the client's.
type answer struct{ grpc.ClientStream }

func (answer) SendMsg(any) error { return nil }
func (answer) CloseSend() error  { return nil }
func (answer) RecvMsg(any) error { return status.Error(codes.Unauthenticated, "answered") }

// TestConfigSelectorInterceptPanics: an interceptor that panics, or whose stream does, ends the call for its selector.
func TestConfigSelectorInterceptPanics(t *testing.T) {
	_, addr := startTarn(t, &testService{})
	var ended atomic.Int64
	var how rpc.CallInterceptor
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(rpc.SetConfigSelector(stateOf(&backend{addr: addr}), funcSelector(func(rpc.CallInfo) (rpc.CallConfig, error) {
		return rpc.CallConfig{Intercept: how, Ended: func() { ended.Add(1) }}, nil
	})))
	c := pb.NewTestServiceClient(dialNames(t, r, `{"pick_first":{}}`))
	panics := func(context.Context, rpc.CallStreamer, ...grpc.CallOption) (grpc.ClientStream, error) {
		panic("interceptor")
	}
	passes := func(ctx context.Context, next rpc.CallStreamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := next(ctx, opts...)
		return panickingStream{s}, err
	}
	unary := func() { c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}) }
	for name, test := range map[string]struct {
		how rpc.CallInterceptor
		do  func()
	}{
		"unary":        {panics, unary},
		"stream":       {panics, func() { c.FullDuplexCall(ctxFor(t)) }},
		"unary stream": {passes, unary},
	} {
		ended.Store(0)
		how = test.how
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			test.do()
		}()
		if n := ended.Load(); n != 1 {
			t.Errorf("%s: ended %d times", name, n)
		}
	}
}

// panickingStream is a stream whose SendMsg panics.
type panickingStream struct{ grpc.ClientStream }

func (panickingStream) SendMsg(any) error { panic("stream") }

// Intercept makes a call: it may pass on another context and options, wrap the stream, fail, answer itself, or make several streams. The call
// ends once in each case.
func TestConfigSelectorIntercept(t *testing.T) {
	svc := &testService{unary: func(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if len(md["added"]) == 0 {
			return nil, status.Error(codes.DataLoss, "without what was added")
		}
		return &pb.SimpleResponse{}, nil
	}, duplex: func(s pb.TestService_FullDuplexCallServer) error {
		return s.Send(&pb.StreamingOutputCallResponse{})
	}}
	_, addr := startTarn(t, svc)
	var ended, finished atomic.Int64
	var log []string
	var how rpc.CallInterceptor
	r := manual.NewBuilderWithScheme("names")
	r.InitialState(rpc.SetConfigSelector(stateOf(&backend{addr: addr}), funcSelector(func(i rpc.CallInfo) (rpc.CallConfig, error) {
		return rpc.CallConfig{Intercept: how, Ended: func() { ended.Add(1) }}, nil
	})))
	c := pb.NewTestServiceClient(dialNames(t, r, `{"pick_first":{}}`))
	finish := grpc.OnFinish(func(error) { finished.Add(1) })
	unary := func() error {
		_, err := c.UnaryCall(ctxFor(t), &pb.SimpleRequest{}, finish)
		return err
	}
	stream := func() error {
		s, err := c.FullDuplexCall(ctxFor(t), finish)
		if err != nil {
			return err
		}
		for err == nil {
			_, err = s.Recv()
		}
		if err == io.EOF {
			err = nil
		}
		return err
	}
	serverStream := func() error { // generated stubs call CloseSend themselves, too
		s, err := c.StreamingOutputCall(ctxFor(t), &pb.StreamingOutputCallRequest{ResponseParameters: []*pb.ResponseParameters{{Size: 1}}}, finish)
		for err == nil {
			_, err = s.Recv()
		}
		if err == io.EOF {
			err = nil
		}
		return err
	}
	abort := func(context.Context, rpc.CallStreamer, ...grpc.CallOption) (grpc.ClientStream, error) {
		return nil, status.Error(codes.Unauthenticated, "no")
	}
	wrap := func(ctx context.Context, next rpc.CallStreamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := next(metadata.AppendToOutgoingContext(ctx, "added", "1"), opts...)
		return wrapped{s, &log}, err
	}
	var trailer metadata.MD
	for _, test := range []struct {
		name string
		how  rpc.CallInterceptor
		do   func() error
		code codes.Code
		log  string
	}{
		{"unary wrapped", wrap, unary, codes.OK, "send close received EOF"},
		{"stream wrapped", wrap, stream, codes.OK, "received EOF"},
		{"server stream wrapped", wrap, serverStream, codes.OK, "send close received EOF"},
		{"unary passed on", func(ctx context.Context, next rpc.CallStreamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return next(ctx, opts...)
		}, unary, codes.DataLoss, ""},
		{"stream passed on", func(ctx context.Context, next rpc.CallStreamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return next(ctx, append(opts, grpc.Trailer(&trailer))...)
		}, stream, codes.OK, ""},
		{"unary aborted", abort, unary, codes.Unauthenticated, ""},
		{"stream aborted", abort, stream, codes.Unauthenticated, ""},
		{"unary of another error", func(context.Context, rpc.CallStreamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, context.DeadlineExceeded
		}, unary, codes.DeadlineExceeded, ""},
		{"no stream", func(context.Context, rpc.CallStreamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return nil, nil
		}, stream, codes.Internal, ""},
		{"unary answered", func(context.Context, rpc.CallStreamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return answer{}, nil
		}, unary, codes.Unauthenticated, ""},
		{"stream answered", func(context.Context, rpc.CallStreamer, ...grpc.CallOption) (grpc.ClientStream, error) {
			return answer{}, nil
		}, stream, codes.Unauthenticated, ""},
		{"made twice", func(ctx context.Context, next rpc.CallStreamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if _, err := next(ctx, opts...); err != nil {
				return nil, err
			}
			s, err := next(metadata.AppendToOutgoingContext(ctx, "added", "1"), opts...)
			return wrapped{s, &log}, err
		}, unary, codes.OK, "send close received EOF"},
		{"failed after all", func(ctx context.Context, next rpc.CallStreamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if _, err := next(ctx, opts...); err != nil {
				return nil, err
			}
			return nil, status.Error(codes.Unauthenticated, "no")
		}, stream, codes.Unauthenticated, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			ended.Store(0)
			finished.Store(0)
			log, how = nil, test.how
			wantCode(t, test.do(), test.code)
			if n, m := ended.Load(), finished.Load(); n != 1 || m != 1 {
				t.Errorf("the call has ended %d times, and for its options %d times", n, m)
			}
			if got := strings.Join(log, " "); got != test.log {
				t.Errorf("%q, want %q", got, test.log)
			}
		})
	}
}
