package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// This file has the trials whose calls follow a script: which messages are sent, however many the method takes, when the header and the
// trailer are asked for, when the caller cancels or its deadline passes, and when the handler returns. Each step begins when the one before
// it, on whichever side, is over, so that grpc-go's client and server show the same each time. What they do not make deterministic is in
// no script:
//   - a message that one side sends when the other has ended the call, or that a side has not received when it ends it;
//   - a header that the client has not asked for when it cancels;
//   - a cancellation before the handler has done anything, unless the context has ended before the call;
//   - Trailer before the call's end;
//   - another attempt, because the handler runs once.

// netScript is what both sides of a call do.
type netScript struct {
	client netShape
	server netShape
	ending netEnding
	bare   bool // the handler sets neither header nor trailer
	steps  []netStep
	final  codes.Code // of the handler
	fails  bool       // RecvMsg or SendMsg of the handler, which returns the error
	count  bool       // the handler sends more or fewer messages than the client takes, with OK
	headed bool       // the handler sends a header that the client gets
	wrong  bool       // one side sends more or fewer messages than the other takes
}

// netShape says how many messages a side takes a method to have.
type netShape uint8

const (
	shapeUnary  netShape = iota // by Invoke; of a server by a MethodDesc
	shapeSingle                 // a stream of one message each way
	shapeOutput
	shapeInput
	shapeBoth
)

func (s netShape) clientStreams() bool { return s >= shapeInput }
func (s netShape) serverStreams() bool { return s == shapeOutput || s == shapeBoth }

func (s netShape) String() string {
	return [...]string{"unary", "single", "output", "input", "both"}[s]
}

// netEnding says how the caller's context ends.
type netEnding uint8

const (
	endsLater     netEnding = iota // after the call
	endsCancelled                  // by its CancelFunc
	endsExpired                    // with DeadlineExceeded, when the script says so
	endsShort                      // by a deadline of some milliseconds
	endedCancelled
	endedZero
	endedPast
	endedConfig // by the service config
)

func (e netEnding) String() string {
	return [...]string{"later", "cancelled", "expired", "short", "cancelled before", "zero", "past", "zero in the service config"}[e]
}

// netStep is what one side does.
type netStep struct {
	side netSide
	act  string
}

type netSide string

const (
	clientSide netSide = "client"
	serverSide netSide = "server"
)

func (s *netScript) String() string {
	var b strings.Builder
	for _, st := range s.steps {
		fmt.Fprintf(&b, " %c.%s", st.side[0], st.act)
	}
	return fmt.Sprintf("client %v, server %v, bare %v, ends %v, final %v:%s", s.client, s.server, s.bare, s.ending, s.final, b.String())
}

// netDirector knows what has happened in a script so far, and which steps may follow.
type netDirector struct {
	*netScript
	sends, receives int // of the client
	closed          bool
	started         bool // the handler has done something
	got, sent       int  // of the server
	header, seen    bool // sent; and the client knows
	returned, ended bool // the handler; the caller's context
	awaited         bool
	finished        bool // the client has the call's end
}

// next are the steps that may be next.
func (d *netDirector) next() (out []netStep) {
	add := func(ok bool, side netSide, act string) {
		if ok {
			out = append(out, netStep{side, act})
		}
	}
	streams := d.client != shapeUnary
	live := !d.returned && !d.ended && !d.fails && (d.server != shapeUnary || d.sends < 2)
	add(streams && live && !d.closed && d.sends < 3, clientSide, "send")
	add(streams && live && !d.closed, clientSide, "close")
	add(streams && (d.header && !d.ended || d.returned || d.ended), clientSide, "header")
	answered := d.client.serverStreams() && d.sent > d.receives
	add(!d.finished && (answered || d.returned || d.ended), clientSide, "recv")
	add(live && d.started && d.sent == d.receives && (d.seen || !d.header) && (d.ending == endsCancelled || d.ending == endsExpired || d.ending == endsShort), clientSide, "end")

	began := !d.returned && (d.client.clientStreams() || d.sends > 0 || d.closed)
	if d.server == shapeUnary {
		began = began && d.closed && d.sends == 1
	}
	if d.ended && !d.awaited {
		add(began, serverSide, "await")
		return out
	}
	began = began && !d.fails
	readable := d.sends > d.got || d.closed
	if !d.server.clientStreams() {
		readable = d.sends > 1 || d.closed
	}
	if d.ended {
		readable = d.got == d.sends && !d.closed
	}
	add(began && readable && d.server != shapeUnary && (d.client != shapeUnary || d.sent < 2), serverSide, "recv")
	if d.client == shapeUnary && d.server != shapeUnary && d.got == 0 {
		return out // Invoke may be sending the request
	}
	if d.client != shapeUnary || d.sent < 2 { // otherwise Invoke fails already
		add(began && d.server != shapeUnary && d.sent < 3, serverSide, "send")
		add(began, serverSide, "header")
	}
	add(began || d.fails && !d.returned, serverSide, "return")
	return out
}

// does notes a step.
func (d *netDirector) does(s netStep) {
	d.steps = append(d.steps, s)
	if s.side == serverSide {
		d.started = true
	}
	switch s {
	case netStep{clientSide, "open"}:
		if d.client == shapeUnary {
			d.sends, d.closed = 1, true
		}
	case netStep{clientSide, "send"}:
		d.sends++
		d.closed = d.closed || !d.client.clientStreams()
	case netStep{clientSide, "close"}:
		d.closed = true
	case netStep{clientSide, "header"}:
		d.seen = true
	case netStep{clientSide, "recv"}:
		d.seen = true
		if d.receives >= d.sent || !d.client.serverStreams() {
			d.finished = true
		}
		d.receives++
	case netStep{clientSide, "end"}:
		d.ended = true
	case netStep{serverSide, "await"}:
		d.awaited = true
	case netStep{serverSide, "recv"}:
		single := !d.server.clientStreams()
		d.fails = d.ended || single && d.got == 0 && d.sends != 1
		if d.got < d.sends {
			d.got++
		}
	case netStep{serverSide, "send"}:
		if d.ended {
			d.fails = true
		} else {
			d.sent++
			d.header = true
			d.count = d.count || d.sent > 1 && !d.client.serverStreams()
		}
	case netStep{serverSide, "header"}:
		d.header = d.header || !d.ended
	case netStep{serverSide, "return"}:
		d.returned = true
		if d.server == shapeUnary && d.final == codes.OK && !d.ended {
			d.sent++
			d.header = true
		}
	}
}

func drawScript(r *rand.Rand) *netScript {
	s := &netScript{ending: netEnding(r.IntN(int(endsShort) + 1)), bare: r.IntN(3) == 0}
	if r.IntN(8) == 0 {
		s.ending = endedCancelled + netEnding(r.IntN(int(endedConfig-endedCancelled)+1))
	}
	s.client = netShape(r.IntN(int(shapeBoth) + 1))
	s.server = s.client
	if r.IntN(3) == 0 {
		s.server = netShape(r.IntN(int(shapeBoth) + 1))
	}
	if r.IntN(3) == 0 {
		s.final = []codes.Code{codes.NotFound, codes.Canceled, codes.DeadlineExceeded, codes.Unknown}[r.IntN(4)]
	}
	d := &netDirector{netScript: s}
	d.does(netStep{clientSide, "open"})
	if s.ending >= endedCancelled {
		return s
	}
	for range 6 + r.IntN(8) {
		next := d.next()
		if len(next) == 0 {
			break
		}
		if at := slices.IndexFunc(next, func(s netStep) bool { return s.act == "end" }); at >= 0 && r.IntN(3) == 0 {
			d.does(next[at])
			continue
		}
		d.does(next[r.IntN(len(next))])
	}
	for !d.returned {
		next := d.next()
		order := []netStep{{serverSide, "await"}, {serverSide, "return"}, {serverSide, "recv"}, {clientSide, "send"}, {clientSide, "close"}}
		at := slices.IndexFunc(order, func(s netStep) bool { return slices.Contains(next, s) })
		if at < 0 {
			break // the handler does not start
		}
		d.does(order[at])
	}
	if !d.ended {
		s.ending = endsLater
	}
	s.headed = d.header
	s.count = s.count || !d.ended && d.sent == 0 && s.final == codes.OK && !s.client.serverStreams()
	s.wrong = s.count || !d.ended && (s.fails || d.sends != 1 && !s.server.clientStreams())
	return s
}

// netPlay is one run of a script.
type netPlay struct {
	*netScript
	o       *netObserved
	size    int
	done    []chan struct{} // closed after each step
	quit    chan struct{}   // closed: a step has failed that could not fail in the script
	quits   sync.Once
	started atomic.Bool
}

func newNetPlay(s *netScript, o *netObserved, size int) *netPlay {
	p := &netPlay{netScript: s, o: o, size: size, quit: make(chan struct{})}
	for range s.steps {
		p.done = append(p.done, make(chan struct{}))
	}
	return p
}

func (p *netPlay) giveUp() { p.quits.Do(func() { close(p.quit); p.o.saw("the script has been left") }) }

// play does the steps of one side, until do returns false, which leaves the script.
func (p *netPlay) play(side netSide, do func(act string) bool) bool {
	for i, s := range p.steps {
		if s.side != side {
			continue
		}
		if i > 0 {
			select {
			case <-p.done[i-1]:
			case <-p.quit:
				return false
			}
		}
		if !do(s.act) {
			p.giveUp()
			return false
		}
		close(p.done[i])
	}
	return true
}

func codeOf(err error) string {
	if errors.Is(err, io.EOF) {
		return "EOF"
	}
	return status.Code(err).String()
}

// serve is the handler; ss is nil for a unary one.
func (p *netPlay) serve(ctx context.Context, in *testpb.SimpleRequest, ss grpc.ServerStream) (*testpb.SimpleResponse, error) {
	if p.started.Swap(true) {
		p.o.saw("server: a second handler")
		return nil, status.Error(codes.Aborted, "a second handler")
	}
	if !p.bare {
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-head", "h"))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trail", "t"))
	}
	p.o.saw("server: request of %d bytes", len(in.GetPayload().GetBody()))
	var failed error
	played := p.play(serverSide, func(act string) bool {
		var err error
		switch act {
		case "await":
			<-ctx.Done()
			if p.ending != endsShort {
				p.o.saw("server: context %v", ctx.Err())
			}
		case "recv":
			var m testpb.SimpleRequest
			err = ss.RecvMsg(&m)
			p.o.saw("server: received %d bytes, %s", len(m.GetPayload().GetBody()), codeOf(err))
		case "send":
			err = ss.SendMsg(&testpb.SimpleResponse{Payload: netBody(p.size)})
			p.o.saw("server: sent, %s", codeOf(err))
		case "header":
			err := grpc.SendHeader(ctx, metadata.Pairs("x-early", "e"))
			p.o.saw("server: header sent %v", err == nil)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			failed = err
			return p.fails
		}
		return true
	})
	switch {
	case failed != nil:
		return nil, failed
	case !played:
		<-ctx.Done()
		return nil, ctx.Err()
	case p.final != codes.OK:
		return nil, status.Error(p.final, "it fails: as the script says")
	}
	return &testpb.SimpleResponse{Payload: netBody(p.size)}, nil
}

// register registers the script's service.
func (p *netPlay) register(s grpc.ServiceRegistrar) {
	desc := &grpc.ServiceDesc{ServiceName: netScriptService, HandlerType: (*any)(nil)}
	switch p.server {
	case shapeUnary:
		desc.Methods = []grpc.MethodDesc{{MethodName: "Call", Handler: func(_ any, ctx context.Context, dec func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
			in := new(testpb.SimpleRequest)
			if err := dec(in); err != nil {
				return nil, err
			}
			if around == nil {
				return netReply(p.serve(ctx, in, nil))
			}
			return around(ctx, in, &grpc.UnaryServerInfo{FullMethod: netScriptMethod}, func(ctx context.Context, req any) (any, error) {
				return netReply(p.serve(ctx, req.(*testpb.SimpleRequest), nil))
			})
		}}}
	default:
		desc.Streams = []grpc.StreamDesc{{StreamName: "Call", ClientStreams: p.server.clientStreams(), ServerStreams: p.server.serverStreams(), Handler: func(_ any, ss grpc.ServerStream) error {
			_, err := p.serve(ss.Context(), nil, ss)
			return err
		}}}
	}
	s.RegisterService(desc, nil)
}

func netReply(r *testpb.SimpleResponse, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

const (
	netScriptService = "tarn.test.Net"
	netScriptMethod  = "/" + netScriptService + "/Call"
)

// netContext is a context that ends as a deadline's does, when the script says so.
type netContext struct {
	context.Context
	at   time.Time
	over chan struct{}
}

func (c *netContext) Deadline() (time.Time, bool) { return c.at, true }
func (c *netContext) Done() <-chan struct{}       { return c.over }
func (c *netContext) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// context is the caller's, with the function that ends it in the script.
func (p *netPlay) context(parent context.Context) (ctx context.Context, end func()) {
	switch p.ending {
	case endsExpired:
		c := &netContext{parent, time.Now().Add(time.Hour), make(chan struct{})}
		return c, sync.OnceFunc(func() { close(c.over) })
	case endsShort:
		ctx, cancel := context.WithTimeout(parent, 30*time.Millisecond)
		context.AfterFunc(ctx, cancel)
		return ctx, func() { <-ctx.Done() }
	case endedCancelled:
		ctx, cancel := context.WithCancel(parent)
		cancel()
		return ctx, cancel
	case endedZero:
		return context.WithTimeout(parent, 0)
	case endedPast:
		return context.WithDeadline(parent, time.Now().Add(-time.Hour))
	}
	return context.WithCancel(parent)
}

// call makes the call, and returns its error.
func (p *netPlay) call(ctx context.Context, cc grpc.ClientConnInterface, opts []grpc.CallOption) error {
	parent, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	defer context.AfterFunc(parent, p.giveUp)() // a script that one side does not follow
	ctx, end := p.context(parent)
	defer end()
	if p.client == shapeUnary {
		return p.invoke(ctx, end, cc, opts)
	}
	var st grpc.ClientStream
	var result error
	over := false
	recv := func() {
		var m testpb.SimpleResponse
		err := st.RecvMsg(&m)
		p.o.saw("client: received %d bytes, %s", len(m.GetPayload().GetBody()), codeOf(err))
		if over = err != nil || !p.client.serverStreams(); err != nil && !errors.Is(err, io.EOF) {
			result = err
		}
	}
	p.play(clientSide, func(act string) bool {
		var err error
		switch act {
		case "open":
			st, err = cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: p.client.clientStreams(), ServerStreams: p.client.serverStreams()}, netScriptMethod, opts...)
			if err != nil {
				p.o.saw("client: not opened")
				result, over = err, true
			}
		case "send":
			err = st.SendMsg(&testpb.SimpleRequest{Payload: netBody(p.size)})
			p.o.saw("client: sent, %s", codeOf(err))
		case "close":
			err = st.CloseSend()
		case "header":
			p.sawHeader(st)
		case "recv":
			if !over {
				recv()
			}
		case "end":
			end()
		}
		return err == nil
	})
	p.awaitLast()
	for !over {
		recv()
	}
	if st != nil {
		p.o.saw("client: trailer %q", st.Trailer()["x-trail"])
		p.sawHeader(st)
	}
	return result
}

func (p *netPlay) sawHeader(st grpc.ClientStream) {
	md, err := st.Header()
	p.o.saw("client: header %q %q, %s", md["x-head"], md["x-early"], codeOf(err))
	if md == nil {
		p.o.saw("client: header is nil")
	}
}

// invoke makes a unary call.
func (p *netPlay) invoke(ctx context.Context, end func(), cc grpc.ClientConnInterface, opts []grpc.CallOption) (err error) {
	over := make(chan struct{})
	p.play(clientSide, func(act string) bool {
		switch act {
		case "open":
			go func() {
				defer close(over)
				var m testpb.SimpleResponse
				err = cc.Invoke(ctx, netScriptMethod, &testpb.SimpleRequest{Payload: netBody(p.size)}, &m, opts...)
				if err == nil {
					p.o.saw("client: reply of %d bytes", len(m.GetPayload().GetBody()))
				}
				if !p.started.Load() {
					p.giveUp() // the handler takes no part
				}
			}()
		case "recv":
			<-over
		case "end":
			end()
		}
		return true
	})
	p.awaitLast()
	<-over
	return err
}

// awaitLast waits for the end of the script: what the client does then does not meet the handler.
func (p *netPlay) awaitLast() {
	select {
	case <-p.done[len(p.done)-1]:
	case <-p.quit:
	}
}

// shows reports whether grpc-go's client and server show a line whenever they run the script.
func (s *netScript) shows(line string) bool {
	switch {
	case s.ending == endsShort:
		return strings.HasPrefix(line, "status")
	case s.ending >= endedCancelled:
		// NewStream fails, or the first RecvMsg.
		return !strings.HasPrefix(line, "client: not") && !strings.HasPrefix(line, "client: header") && !strings.HasPrefix(line, "client: received") &&
			!strings.HasPrefix(line, "client: trailer") && !strings.HasPrefix(line, "the script")
	case s.count:
		// The client resets the stream while the status is on its way, and its call ends with its context, or with the server's OK.
		return !strings.Contains(line, "railer") && !strings.Contains(line, "OnFinish") && !strings.HasPrefix(line, "client: End") &&
			!strings.HasPrefix(line, "client: InPayload") && !strings.HasPrefix(line, "peer") && !strings.HasPrefix(line, "header")
	}
	return true
}

// differs reports whether a line is known to be another with w, as the page on rpc says.
func (s *netScript) differs(w netWay, line string) bool {
	header := line == "client: header is nil" || strings.HasSuffix(line, "InHeader") || strings.HasSuffix(line, "OutHeader")
	switch {
	case w.ours && s.final == codes.OK && !s.headed && header: // a stream without messages is not answered by trailers alone
	case w.protocol != rpc.GRPC && !s.headed && header: // a header of HTTP is part of each answer
	case w.protocol == rpc.Connect && s.client == shapeUnary && s.final != codes.OK &&
		(strings.HasPrefix(line, "header") || strings.HasPrefix(line, "trailer") || line == "client: InHeader"): // the metadata of an error is not in two parts
	case w.ours && s.server == shapeSingle && line == "server: stream interceptor": // grpc-go calls no interceptor for such a method since 1.84
	case w.protocol != rpc.GRPC && (s.ending == endsCancelled || s.ending == endsExpired) &&
		(strings.HasPrefix(line, "peer") || line == "client: OutHeader"): // the round tripper may report its connection later
	case w.ours && s.server == shapeUnary && s.wrong && strings.HasPrefix(line, "server: InPayload"): // a request is not decoded before it is complete
	default:
		return false
	}
	return true
}

// follows reports whether a client of a protocol can make the script's call.
func (s *netScript) follows(p rpc.Protocol) bool {
	// Connect has another content type for unary calls.
	return p != rpc.Connect || s.client == s.server && s.client != shapeSingle
}

// TestNetScripts: scripts end, and have both sides do something.
func TestNetScripts(t *testing.T) {
	acts := map[netStep]int{}
	for seed := range uint64(2000) {
		s := drawScript(rand.New(rand.NewPCG(seed, 2)))
		for _, st := range s.steps {
			acts[st]++
		}
	}
	for _, st := range []netStep{{clientSide, "open"}, {clientSide, "send"}, {clientSide, "close"}, {clientSide, "header"}, {clientSide, "recv"}, {clientSide, "end"},
		{serverSide, "await"}, {serverSide, "recv"}, {serverSide, "send"}, {serverSide, "header"}, {serverSide, "return"}} {
		if acts[st] < 100 {
			t.Errorf("%v: %d times in 2000 scripts", st, acts[st])
		}
	}
}
