package h2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// exploredSteps are those of one interleaving. Each feeds the client at most one frame.
const exploredSteps = 100

// TestExploreSender drives a client's sender through seeded interleavings: Writes of
// all lengths, of buffers and of Sources, some of which end early or panic, cancelled and reset, priorities, PINGs, windows that open and shut, a
// network that takes any number of bytes at any time, and its end. After each step
// every goroutine is blocked, so that a seed is one interleaving. What leaves must be
// valid HTTP/2 within the windows, in order, and everything must end.
func TestExploreSender(t *testing.T) {
	seeds := 2500
	switch {
	case raceEnabled:
		seeds = 200
	case os.Getenv("TARN_LONG") != "":
		seeds = 10_000 // 10^6 steps
	}
	const parts = 4
	for part := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < seeds && !t.Failed(); {
				synctest.Test(t, func(t *testing.T) {
					pool := tarntest.NewPool(t) // of many interleavings: its end collects garbage twice
					for range 200 {
						explore(t, pool, uint64(seed))
						if t.Failed() {
							t.Fatalf("seed %d", seed)
						}
						if seed += parts; seed >= seeds {
							break
						}
					}
				})
			}
		})
	}
}

// explore makes the interleaving of one seed.
func explore(t *testing.T, pool *tarn.Pool, seed uint64) {
	x := newExplorer(t, pool, seed)
	for range exploredSteps {
		x.step()
		synctest.Wait()
		x.check()
	}
	x.finish()
	if n := pool.Stats().InUseBuffers; n != 0 {
		t.Errorf("%d buffers are not freed", n)
	}
}

// explorer is the model of one connection and its peer.
type explorer struct {
	t     *testing.T
	rnd   *rand.Rand
	net   *stepNet
	c     *Conn
	pool  *tarn.Pool
	run   chan struct{}
	calls []*exploredCall
	peer  framePeer
}

// exploredCall is a stream of the model.
type exploredCall struct {
	s        *Stream
	id       uint32
	cancel   context.CancelFunc
	writing  bool
	dead     bool // reset, released or failed
	ended    bool
	sent     int // bytes that Writes that returned nil have passed
	begun    int // and those of all
	onResets int // calls of OnReset
}

func newExplorer(t *testing.T, pool *tarn.Pool, seed uint64) *explorer {
	x := &explorer{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), net: newStepNet(), pool: pool, run: make(chan struct{})}
	x.peer = framePeer{t: t, window: initialWindow, conn: initialWindow, streams: map[uint32]*peerStream{}}
	c, err := NewClient(x.net, (*exploredHandler)(x), Config{Pool: x.pool})
	if err != nil {
		t.Fatal(err)
	}
	x.c = c
	go func() { defer close(x.run); c.Run() }()
	x.inject(frame{typ: frameSettings}, nil)
	return x
}

func (x *explorer) inject(f frame, payload []byte) {
	f.length = len(payload)
	b := make([]byte, frameHeaderLen, frameHeaderLen+len(payload))
	putFrame(b, f)
	x.net.feed(append(b, payload...))
}

func u32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }

func (x *explorer) pick() *exploredCall {
	if len(x.calls) == 0 {
		return nil
	}
	k := x.calls[x.rnd.IntN(len(x.calls))]
	if k.s == nil || k.dead {
		return nil
	}
	return k
}

func (x *explorer) size() int {
	return 1 << x.rnd.IntN(18) * (1 + x.rnd.IntN(3)) / 3
}

func (x *explorer) step() {
	r := x.rnd
	switch n := r.IntN(20); {
	case n < 3:
		x.open()
	case n < 6:
		if k := x.pick(); k != nil && !k.writing && !k.ended {
			x.write(k)
		}
	case n < 7:
		if k := x.pick(); k != nil {
			k.cancel()
		}
	case n < 8:
		if k := x.pick(); k != nil && !k.writing {
			k.dead = true
			if r.IntN(2) == 0 {
				k.s.Reset(Cancel)
			}
			k.s.Release()
		}
	case n < 9:
		if k := x.pick(); k != nil {
			k.s.SetPriority(Priority{uint8(r.IntN(8)), r.IntN(2) == 0})
		}
	case n < 10:
		if r.IntN(2) == 0 {
			<-time.After(time.Duration(r.IntN(3)) * 50 * time.Millisecond) // the bubble's clock
			break
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		go func() { defer cancel(); x.c.Ping(ctx) }()
	case n < 14:
		x.net.allow(1 << r.IntN(18))
	case n < 16:
		d := 1 + r.IntN(300_000)
		x.peer.conn += int64(d)
		x.inject(frame{typ: frameWindow}, u32(uint32(d)))
	case n < 18:
		if k := x.pick(); k != nil {
			d := 1 + r.IntN(300_000)
			x.peer.stream(k.id).window += int64(d)
			x.inject(frame{typ: frameWindow, id: k.id}, u32(uint32(d)))
		}
	case n < 19:
		v := r.IntN(200_000)
		x.inject(frame{typ: frameSettings}, append([]byte{0, byte(setWindow)}, u32(uint32(v))...))
		x.peer.setWindow(int64(v))
	default:
		if k := x.pick(); k != nil && r.IntN(3) == 0 {
			x.inject(frame{typ: frameReset, id: k.id}, u32(uint32(Cancel)))
		}
		if r.IntN(60) == 0 {
			x.net.breakOff()
		}
	}
}

// data is a buffer whose bytes say where in the stream they stand.
func (x *explorer) data(k *exploredCall, n int) tarn.Buffer {
	b := x.pool.Get(n)
	for p := b.Bytes(); len(p) > 0; {
		m := copy(p, from(k.begun))
		p, k.begun = p[m:], k.begun+m
	}
	return b
}

// numbered is what streams carry, again and again.
var numbered = func() (b [251 * 256]byte) {
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}()

// from is what a stream carries from its n-th byte on.
func from(n int) []byte { return numbered[n%251:] }

func (x *explorer) open() {
	k := new(exploredCall)
	x.calls = append(x.calls, k)
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel, k.writing = cancel, true
	o := &Out{Block: testRequest}
	n := 0
	if x.rnd.IntN(2) == 0 {
		n = x.size()
		o.Data = x.data(k, n)
	}
	go func() {
		s, err := x.c.Open(ctx, k, o)
		k.writing = false
		if err != nil {
			k.dead = true
			return
		}
		k.s, k.id, k.sent = s, s.ID(), k.sent+n
	}()
}

func (x *explorer) write(k *exploredCall) {
	n := x.size()
	o := new(Out)
	if x.rnd.IntN(3) == 0 {
		o.Source, o.SourceLen = &exploredSource{x: x, k: k, rnd: rand.New(rand.NewPCG(x.rnd.Uint64(), 1))}, int64(n)
	} else {
		o.Data = x.data(k, n)
	}
	if x.rnd.IntN(3) == 0 {
		o.Ending, k.ended = End, true
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel, k.writing = cancel, true
	go func() {
		err := writeExplored(ctx, k.s, o)
		k.writing = false
		if err == nil {
			k.sent += n - int(o.SourceLen)
			k.ended = k.ended && o.SourceLen == 0 // otherwise the Source has ended it, and Ending was not sent
			return
		}
		k.dead = true
		k.s.Reset(Cancel)
		k.s.Release()
	}()
}

// errExploredSource is what an exploredSource panics with.
var errExploredSource = errors.New("a Source that panics")

// exploredSource supplies the bytes that a stream carries next, any number at a time.
type exploredSource struct {
	x   *explorer
	k   *exploredCall
	rnd *rand.Rand // the explorer's is not for the goroutine that sends
}

func (s *exploredSource) Supply(n int) tarn.Buffer {
	switch s.rnd.IntN(20) {
	case 0:
		return tarn.Buffer{}
	case 1:
		panic(errExploredSource)
	}
	return s.x.data(s.k, 1+s.rnd.IntN(n))
}

// writeExplored is Write; the panic of an exploredSource is its error.
func writeExplored(ctx context.Context, s *Stream, o *Out) (err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case errExploredSource:
			err = errExploredSource
		default:
			panic(v)
		}
	}()
	return s.Write(ctx, o)
}

// check parses what the client has sent and checks it.
func (x *explorer) check() { x.peer.take(x.net.taken()) }

// finish opens everything, ends what is left and checks that all of it has left.
func (x *explorer) finish() {
	x.inject(frame{typ: frameWindow}, u32(1<<30))
	x.inject(frame{typ: frameSettings}, append([]byte{0, byte(setWindow)}, u32(1<<30)...))
	x.peer.conn += 1 << 30
	x.peer.setWindow(1 << 30)
	x.net.allow(1 << 30)
	synctest.Wait()
	x.check()
	broken := x.c.Err() != nil
	for _, k := range x.calls {
		switch {
		case k.writing:
			x.t.Errorf("stream %d: a Write has not ended", k.id)
		case k.dead || broken:
		case x.peer.stream(k.id).got != k.sent:
			x.t.Errorf("stream %d: %d bytes written, %d came", k.id, k.sent, x.peer.stream(k.id).got)
		}
		k.cancel()
	}
	synctest.Wait()
	for _, k := range x.calls {
		if k.s != nil && !k.dead {
			k.s.Release()
		}
	}
	synctest.Wait()
	x.c.mu.Lock()
	if !x.c.ready.empty() || x.c.send.queued() > 0 || x.c.send.state != notWriting || x.c.inUse != 0 {
		x.t.Errorf("left: %+v, %d bytes, state %d, %d streams", x.c.ready, x.c.send.queued(), x.c.send.state, x.c.inUse)
	}
	x.c.mu.Unlock()
	x.c.Close()
	<-x.run
	for _, k := range x.calls {
		if k.onResets > 1 {
			x.t.Errorf("stream %d got %d callbacks for its end", k.id, k.onResets)
		}
	}
	<-time.After(time.Minute) // the bubble's clock: timers go off
}

// exploredHandler counts OnReset.
type exploredHandler explorer

func (x *exploredHandler) OnHeaders(*Stream, *Header, Ending)        {}
func (x *exploredHandler) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (x *exploredHandler) OnReset(s *Stream, _ error)                { s.Value.(*exploredCall).onResets++ }

// framePeer parses what the client sends and checks it.
type framePeer struct {
	t       *testing.T
	buf     []byte
	begun   bool
	window  int64 // of new streams
	conn    int64
	streams map[uint32]*peerStream
	lastID  uint32
}

type peerStream struct {
	window int64 // granted beyond the initial one
	got    int
	over   bool
}

func (p *framePeer) stream(id uint32) *peerStream {
	s := p.streams[id]
	if s == nil {
		s = new(peerStream)
		p.streams[id] = s
	}
	return s
}

func (p *framePeer) setWindow(v int64) { p.window = max(p.window, v) }

func (p *framePeer) take(b []byte) {
	p.buf = append(p.buf, b...)
	if !p.begun && len(p.buf) >= len(Preface) {
		p.buf, p.begun = p.buf[len(Preface):], true
	}
	for p.begun && len(p.buf) >= frameHeaderLen {
		f := parseFrame(p.buf)
		if len(p.buf) < frameHeaderLen+f.length {
			return
		}
		p.frame(f, p.buf[frameHeaderLen:frameHeaderLen+f.length])
		p.buf = p.buf[frameHeaderLen+f.length:]
	}
}

func (p *framePeer) frame(f frame, payload []byte) {
	bad := func(what string) { p.t.Errorf("%s: %+v", what, f) }
	if f.length > minMaxFrame {
		bad("a frame that is too long")
	}
	switch f.typ {
	case frameHeaders:
		if f.id <= p.lastID {
			bad("a stream out of order")
		}
		p.lastID = f.id
	case frameData:
		s := p.stream(f.id)
		if f.id > p.lastID || s.over {
			bad("DATA on a stream that is not open")
		}
		for left := payload; len(left) > 0; {
			want := from(s.got)
			want = want[:min(len(want), len(left))]
			if !bytes.Equal(left[:len(want)], want) {
				bad(fmt.Sprintf("bytes %d to %d of the stream are wrong", s.got, s.got+len(want)))
			}
			left, s.got = left[len(want):], s.got+len(want)
		}
		p.conn -= int64(f.length)
		if p.conn < 0 || int64(s.got) > s.window+p.window {
			bad("DATA beyond a window")
		}
		s.over = f.has(flagEndStream)
	case frameReset:
		if f.id > p.lastID {
			bad("RST_STREAM of an idle stream")
		}
		p.stream(f.id).over = true
	}
}

// stepNet is a net.Conn that takes as many bytes as it is allowed, and has its Writes
// wait for that.
type stepNet struct {
	net.Conn
	in      *io.PipeReader
	inW     *io.PipeWriter
	feeds   chan []byte
	mu      chan struct{} // a lock that a bubble sees as blocking
	allowed int
	out     []byte
	grown   chan struct{} // closed when allowed grows or the network breaks
	broken  bool
}

func newStepNet() *stepNet {
	n := &stepNet{feeds: make(chan []byte, 4*exploredSteps), mu: make(chan struct{}, 1), grown: make(chan struct{})}
	n.in, n.inW = io.Pipe()
	feeds := n.feeds // Close sets the field to nil
	go func() {
		for b := range feeds {
			n.inW.Write(b)
		}
	}()
	return n
}

func (n *stepNet) change(f func()) {
	n.mu <- struct{}{}
	f()
	close(n.grown)
	n.grown = make(chan struct{})
	<-n.mu
}

func (n *stepNet) feed(b []byte) {
	n.mu <- struct{}{}
	if n.feeds != nil {
		n.feeds <- b
	}
	<-n.mu
}
func (n *stepNet) allow(bytes int) { n.change(func() { n.allowed += bytes }) }
func (n *stepNet) breakOff()       { n.change(func() { n.broken = true }); n.inW.Close() }

func (n *stepNet) taken() (b []byte) {
	n.change(func() { b, n.out = n.out, nil })
	return b
}

func (n *stepNet) Read(p []byte) (int, error) { return n.in.Read(p) }

func (n *stepNet) Write(p []byte) (int, error) {
	total := 0
	for {
		n.mu <- struct{}{}
		m := min(len(p), n.allowed)
		broken, grown := n.broken, n.grown
		if !broken {
			n.out = append(n.out, p[:m]...)
			n.allowed -= m
			total += m
			p = p[m:]
		}
		<-n.mu
		switch {
		case broken:
			return total, io.ErrClosedPipe
		case len(p) == 0:
			return total, nil
		}
		<-grown
	}
}

func (n *stepNet) Close() error {
	n.mu <- struct{}{}
	closed := n.broken
	<-n.mu
	if !closed {
		n.breakOff()
	}
	n.in.Close()
	n.mu <- struct{}{}
	if n.feeds != nil {
		close(n.feeds)
		n.feeds = nil
	}
	<-n.mu
	return nil
}

func (n *stepNet) SetDeadline(time.Time) error      { return nil }
func (n *stepNet) SetReadDeadline(time.Time) error  { return io.ErrNoProgress }
func (n *stepNet) SetWriteDeadline(time.Time) error { return nil }
func (n *stepNet) LocalAddr() net.Addr              { return memAddr{} }
func (n *stepNet) RemoteAddr() net.Addr             { return memAddr{} }
