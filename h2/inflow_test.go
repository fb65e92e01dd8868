package h2

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// flowStream is a stream of a flowRun.
type flowStream struct {
	streamInflow
	base  int64 // what its window is together with what has not been given back
	taken int   // consumed, and the window not yet returned for it
}

// flowRun plays the peer, the program and the connection of an inflow, and checks after each step what must hold.
type flowRun struct {
	t       testing.TB
	f       inflow
	streams []*flowStream
	now     instant
	log     []string
}

// flowConfigs are configurations at and off their limits.
var flowConfigs = []Config{
	{},
	{Window: 1, MaxWindow: 1},
	{Window: 3, MaxWindow: 1 << 20, ConnWindow: initialWindow},
	{Window: 64 << 10, MaxWindow: 16 << 20, ConnWindow: initialWindow, Unread: 1},
	{Window: 256 << 10, MaxWindow: 256 << 10, Unread: 100 << 10},
	{Window: 1 << 30, MaxWindow: maxWindow, ConnWindow: maxWindow, Unread: 1 << 30},
}

func newFlowRun(t testing.TB, cfg Config) *flowRun {
	cfg, err := cfg.normal()
	if err != nil {
		t.Fatal(err)
	}
	x := &flowRun{t: t, now: 1}
	x.f.init(&cfg)
	x.f.announce(x.now)
	return x
}

// step does one of the things that happen to a connection, by op and n.
func (x *flowRun) step(op byte, n int) {
	var s *flowStream
	if len(x.streams) > 0 {
		s = x.streams[n%len(x.streams)]
	}
	kind := op % 8
	x.log = append(x.log, fmt.Sprint(kind, " ", n))
	switch {
	case kind == 0 && len(x.streams) < 100 || s == nil:
		o := x.f.open()
		x.streams = append(x.streams, &flowStream{streamInflow: o, base: o.window})
		return
	case kind == 1: // the stream ends, and what is unread is dropped
		x.f.consumed(&s.streamInflow, s.unread)
		x.streams = slices.Delete(x.streams, n%len(x.streams), n%len(x.streams)+1)
		s = nil
	case kind == 2:
		x.now += instant(n) * instant(10*time.Microsecond)
		return
	case kind == 3:
		want := x.f.unacked > 0
		if got := x.f.acknowledge(x.now); got != want {
			x.fail("an acknowledgement was taken: %v", got)
		}
		return
	case kind == 4: // the program has read, and gives the window back later
		n = min(n, s.unread)
		x.f.consumed(&s.streamInflow, n)
		s.taken += n
	case kind == 5: // it reads all and gives all back
		s.returnable += s.unread + s.taken
		s.taken = 0
		x.f.consumed(&s.streamInflow, s.unread)
	default: // DATA as large as the windows permit, and as frames are
		n = int(min(int64(n*64), s.window, int64(x.f.conn), 1<<20))
		if n <= 0 {
			return
		}
		if !x.f.receive(n) {
			x.fail("%d bytes within the window were too many", n)
		}
		x.f.delivered(&s.streamInflow, n, n-n/16)
	}
	x.update(s)
}

// update sends what is due.
func (x *flowRun) update(s *flowStream) {
	var of *streamInflow
	if s != nil {
		of = &s.streamInflow
	}
	if x.f.due(of) {
		u := x.f.update(of, len(x.streams), x.now)
		if u.conn <= 0 && u.stream <= 0 || u.conn < 0 || u.stream < 0 || u.wider < 0 || u.wider > 0 && !u.settle || u.stream > 0 && s == nil {
			x.fail("an update of %+v", u)
		}
		for _, o := range x.streams {
			o.window += int64(u.wider)
			o.base += int64(u.wider)
		}
	}
	x.check()
}

func (x *flowRun) check() {
	f, cfg := &x.f, x.f.cfg
	unread := 0
	for _, s := range x.streams {
		unread += s.unread
		if got := s.window + int64(s.returnable+s.unread+s.taken); got != s.base {
			x.fail("a stream's window of %d bytes has become %d", s.base, got)
		}
		if s.window < 0 || s.base > int64(cfg.MaxWindow)+initialWindow { // which the peer may have assumed
			x.fail("a stream's window of %d, in all %d", s.window, s.base)
		}
	}
	switch {
	case unread != f.unread:
		x.fail("%d bytes unread, counted %d", unread, f.unread)
	case f.conn+f.returnable != f.size:
		x.fail("the connection's window of %d is %d and %d", f.size, f.conn, f.returnable)
	case f.conn < 0 || f.size > maxWindow || f.window < cfg.Window || f.window > cfg.MaxWindow:
		x.fail("windows of %d (%d) and %d", f.size, f.conn, f.window)
	case int64(f.conn)+int64(f.unread) > int64(cfg.Unread)+int64(firstWindow(cfg)):
		x.fail("the peer may send %d, and %d are unread", f.conn, f.unread)
	case f.unacked > 1:
		x.fail("%d SETTINGS are not acknowledged", f.unacked)
	}
}

func (x *flowRun) fail(format string, args ...any) {
	x.t.Fatalf("%s (after %v)", fmt.Sprintf(format, args...), x.log[max(0, len(x.log)-20):])
}

// readAll has the program read all and checks that the peer may send then, on the connection and each stream: nothing waits for ever.
func (x *flowRun) readAll() {
	for i := range x.streams {
		x.step(5, i)
	}
	if x.f.conn <= 0 {
		x.fail("all is read, and the connection's window is %d", x.f.conn)
	}
	for _, s := range x.streams {
		if s.window <= 0 {
			x.fail("all is read, and a stream's window is %d", s.window)
		}
	}
}

// TestInflow takes inflow through random sequences of what peers and programs do: windows stay within the bounds of Config, no WINDOW_UPDATE
// of nothing is sent, what is not given back is not forgotten, and when all is read the peer may send.
func TestInflow(t *testing.T) {
	for i, cfg := range flowConfigs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			for seed := range uint64(50) {
				rnd := rand.New(rand.NewPCG(seed, uint64(i)))
				x := newFlowRun(t, cfg)
				for range 2000 {
					x.step(byte(rnd.Uint32()), int(rnd.Uint32()>>(16+rnd.IntN(16))))
				}
				x.readAll()
			}
		})
	}
}

// FuzzInflow is TestInflow with sequences that the fuzzer finds: a byte for the configuration, then three for each step.
func FuzzInflow(f *testing.F) {
	for i := range flowConfigs {
		rnd := rand.New(rand.NewPCG(uint64(i), 2))
		seed := []byte{byte(i)}
		for range 300 {
			seed = append(seed, byte(rnd.Uint32()))
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		x := newFlowRun(t, flowConfigs[int(in[0])%len(flowConfigs)])
		for in = in[1:]; len(in) >= 3; in = in[3:] {
			x.step(in[0], int(in[1])<<8|int(in[2]))
		}
		x.readAll()
	})
}

// TestInflowRefusesTooMuch: what is beyond the connection's window is not taken.
func TestInflowRefusesTooMuch(t *testing.T) {
	x := newFlowRun(t, Config{})
	if !x.f.receive(x.f.conn) || x.f.receive(1) {
		t.Error("the bytes beyond the connection's window were taken, or those within were not")
	}
}

// link is a model of a network between a peer that sends as much as its windows permit and a program that reads at once.
type link struct {
	rtt     time.Duration
	rate    int           // bytes a second
	jitter  time.Duration // added to the time of a packet, at random; packets stay in order
	loss    float64       // of packets; one takes a round trip more
	streams int
	message int // bytes after which a stream ends and another takes its place; 0: none does
}

// linkEvent is something that arrives.
type linkEvent struct {
	when instant
	do   func()
}

// run returns how many bytes arrive in each of n round trips.
func (l link) run(t testing.TB, cfg Config, n int) []int {
	const packet = 16 << 10
	x := newFlowRun(t, cfg)
	rnd := rand.New(rand.NewPCG(1, uint64(l.rtt)))
	var events []linkEvent
	var last [2]instant // of each direction's packets
	arrive := func(direction int, sent instant, do func()) {
		when := sent + instant(l.rtt/2)
		if l.jitter > 0 {
			when += instant(rnd.Int64N(int64(l.jitter)))
		}
		if rnd.Float64() < l.loss {
			when += instant(l.rtt)
		}
		when = max(when, last[direction]) // after those before it
		last[direction] = when
		events = append(events, linkEvent{when, do})
	}
	// What the peer knows.
	conn := int64(initialWindow)
	type sending struct {
		*flowStream
		window, rest int64
	}
	var streams []*sending
	initial := int64(initialWindow)
	open := func() *sending {
		o := x.f.open()
		s := &sending{flowStream: &flowStream{streamInflow: o, base: o.window}, window: initial, rest: 1 << 62}
		if l.message > 0 {
			s.rest = int64(l.message)
		}
		x.streams = append(x.streams, s.flowStream)
		return s
	}
	free := instant(0) // when the link has sent what it was given
	got := make([]int, n)
	acknowledge := func(window int) {
		arrive(1, x.now, func() { // at the peer
			for _, s := range streams {
				s.window += int64(window) - initial
			}
			initial = int64(window)
			arrive(0, x.now, func() { x.f.acknowledge(x.now) })
		})
	}
	acknowledge(x.f.window) // the greeting
	if d := int64(x.f.size - initialWindow); d > 0 {
		arrive(1, x.now, func() { conn += d })
	}
	receive := func(s *sending, m int) {
		if i := int((x.now - 1) / instant(l.rtt)); i < n {
			got[i] += m
		}
		if !x.f.receive(m) {
			t.Fatal("the model of the peer sends beyond the window")
		}
		of := &s.streamInflow
		x.f.delivered(of, m, m)
		x.f.consumed(of, m)
		of.returnable += m
		if !x.f.due(of) {
			return
		}
		u := x.f.update(of, len(streams), x.now)
		for _, o := range x.streams {
			o.window += int64(u.wider)
		}
		if u.settle {
			acknowledge(x.f.window)
		}
		arrive(1, x.now, func() { conn += int64(u.conn); s.window += int64(u.stream) })
	}
	for range l.streams {
		streams = append(streams, open())
	}
	end := 1 + instant(n)*instant(l.rtt)
	for x.now < end {
		// The peer sends what it may, one packet of each stream in turn.
		for sent := true; sent && free <= x.now; {
			sent = false
			for i, s := range streams {
				m := min(packet, conn, s.window, s.rest)
				if m <= 0 {
					continue
				}
				sent = true
				conn, s.window, s.rest = conn-m, s.window-m, s.rest-m
				free = max(free, x.now) + instant(float64(m)/float64(l.rate)*float64(time.Second))
				arrive(0, free, func() { receive(s, int(m)) })
				if s.rest == 0 {
					streams[i] = open()
				}
			}
		}
		next := max(free, x.now+1)
		if len(events) > 0 {
			slices.SortStableFunc(events, func(a, b linkEvent) int { return cmp.Compare(a.when, b.when) })
			if free <= x.now || events[0].when < free {
				next = events[0].when
			}
		} else if free <= x.now {
			t.Fatalf("after %v nothing moves", time.Duration(x.now))
		}
		x.now = max(x.now, next)
		for len(events) > 0 && events[0].when <= x.now {
			do := events[0].do
			events = events[1:]
			do()
		}
		if len(x.streams) > 4*l.streams { // those that have ended, and of which nothing is on its way
			x.streams = x.streams[len(x.streams)-2*l.streams:]
		}
	}
	return got
}

// TestInflowFillsLinks: over links of 20 and 100 ms, with jitter and with loss, windows grow within a few round trips to what the link
// carries, or to what Config permits, and stay.
func TestInflowFillsLinks(t *testing.T) {
	const ms, mb = time.Millisecond, 1 << 20
	for _, x := range []struct {
		name   string
		link   link
		cfg    Config
		within int // round trips, of 40
	}{
		{"20 ms, 10 MB/s", link{rtt: 20 * ms, rate: 10 * mb, streams: 1}, Config{}, 6},
		{"20 ms, 100 MB/s", link{rtt: 20 * ms, rate: 100 * mb, streams: 1}, Config{}, 6},
		{"100 ms, 10 MB/s", link{rtt: 100 * ms, rate: 10 * mb, streams: 1}, Config{}, 6},
		{"100 ms, 100 MB/s", link{rtt: 100 * ms, rate: 100 * mb, streams: 1}, Config{}, 6},
		{"100 ms, 100 MB/s, 16 MiB", link{rtt: 100 * ms, rate: 100 * mb, streams: 1}, Config{MaxWindow: 16 << 20}, 8},
		{"100 ms, 50 MB/s, 8 streams", link{rtt: 100 * ms, rate: 50 * mb, streams: 8}, Config{MaxWindow: 16 << 20}, 8},
		{"20 ms and jitter of 10 ms", link{rtt: 20 * ms, rate: 50 * mb, jitter: 10 * ms, streams: 1}, Config{}, 8},
		{"100 ms and jitter of 100 ms", link{rtt: 100 * ms, rate: 10 * mb, jitter: 100 * ms, streams: 1}, Config{}, 10},
		{"20 ms and loss of 1 %", link{rtt: 20 * ms, rate: 50 * mb, loss: 0.01, streams: 1}, Config{}, 8},
		{"100 ms and loss of 1 %", link{rtt: 100 * ms, rate: 20 * mb, loss: 0.01, streams: 1}, Config{}, 10},
		{"20 ms, 64 short streams", link{rtt: 20 * ms, rate: 200 * mb, streams: 64, message: 64 << 10}, Config{}, 12},
		{"20 ms, window fixed", link{rtt: 20 * ms, rate: 100 * mb, streams: 1}, Config{Window: 1 << 20, MaxWindow: 1 << 20}, 6},
	} {
		t.Run(x.name, func(t *testing.T) {
			const trips = 40
			got := x.link.run(t, x.cfg, trips)
			cfg, err := x.cfg.normal()
			if err != nil {
				t.Fatal(err)
			}
			// A window is filled once a round trip; of it a quarter is kept back.
			trip, together := x.link.rtt+x.link.jitter, 4
			if x.link.loss > 0 {
				trip += x.link.rtt // there is a loss in nearly each, and at times one after another
				together = 16
			}
			perTrip := 0.75 * float64(cfg.MaxWindow*x.link.streams) * x.link.rtt.Seconds() / trip.Seconds()
			most := min(float64(x.link.rate)*x.link.rtt.Seconds(), perTrip)
			for i := x.within; i+together <= trips; i++ {
				sum := 0
				for _, n := range got[i : i+together] {
					sum += n
				}
				if want := float64(together) * most; float64(sum) < 0.7*want {
					t.Errorf("%d round trips from %d on: %d bytes, of %.0f; all: %v", together, i, sum, want, got)
					return
				}
			}
		})
	}
}
