package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// TestTurns: Writes that wait for the connection's window go on in the order in
// which they came, each until all of it is sent; one that is given up does not delay
// the others; and a short one is sent before them.
func TestTurns(t *testing.T) {
	const size = 100_000
	r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	open := func(n int) *Stream {
		t.Helper()
		o := &Out{Block: testRequest}
		if n > 0 {
			o.Data = c.cfg.Pool.Get(n)
		}
		s, err := c.Open(context.Background(), newCall(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	streams := []*Stream{open(initialWindow)}
	waits := func(s *Stream) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return s.wait != nil && s.wait.active
	}
	type result struct {
		s   *Stream
		err error
	}
	done := make(chan result, 8)
	start := func(ctx context.Context, n int) *Stream {
		t.Helper()
		s := open(0)
		streams = append(streams, s)
		go func() { done <- result{s, s.Write(ctx, &Out{Data: c.cfg.Pool.Get(n), Ending: End})} }()
		for end := time.Now().Add(20 * time.Second); !waits(s); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal("a Write does not wait")
			}
		}
		return s
	}
	ctx, cancel := context.WithCancel(context.Background())
	first := start(context.Background(), size)
	gone := start(ctx, size)
	second := start(context.Background(), size)
	third := start(context.Background(), size)
	small := start(context.Background(), 100)
	cancel()
	if d := <-done; d.s != gone || !errors.Is(d.err, context.Canceled) {
		t.Fatalf("stream %d: %v", d.s.ID(), d.err)
	}
	sent := func() map[*Stream]int {
		r.mu.Lock()
		defer r.mu.Unlock()
		m := map[*Stream]int{}
		for _, f := range r.seen {
			for _, s := range streams {
				if f.typ == http2.FrameData && f.id == s.ID() {
					m[s] += f.n
				}
			}
		}
		return m
	}
	const grant = 30_000
	for given := grant; given < 3*size+100+grant; given += grant {
		r.fr.WriteWindowUpdate(0, grant)
		all := min(given, 3*size+100)
		for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
			m := sent()
			a, b, d := m[first], m[second], m[third]
			if a+b+d+m[small] == all {
				if b > 0 && a < size || d > 0 && b < size {
					t.Fatalf("out of turn: %d, %d and %d bytes", a, b, d)
				}
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d given, and %d, %d and %d bytes came", given, a, b, d)
			}
		}
		if sent()[small] != 100 {
			t.Fatal("the short Write was not sent before the long ones")
		}
	}
	for range 4 {
		if d := <-done; d.err != nil {
			t.Errorf("stream %d: %v", d.s.ID(), d.err)
		}
	}
	c.mu.Lock()
	if c.send.ready != (schedule{}) {
		t.Errorf("left: %+v", c.send.ready)
	}
	c.mu.Unlock()
	for _, s := range streams {
		s.Release()
	}
	if sent()[gone] != 0 {
		t.Error("what was given up was sent")
	}
}

// TestShortDataLeavesTurns: two streams whose short Writes use up the connection's window
// again and again keep neither a long Write back nor each other.
func TestShortDataLeavesTurns(t *testing.T) {
	const long, short, most = 100_000, 10_000, 200
	r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4 << 20})
	open := func(n int) *Stream {
		t.Helper()
		o := &Out{Block: testRequest}
		if n > 0 {
			o.Data = c.cfg.Pool.Get(n)
		}
		s, err := c.Open(context.Background(), newCall(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	streams := []*Stream{open(initialWindow), open(0), open(0), open(0)}
	large, small := streams[1], streams[2:]
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(); runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	done := map[*Stream]chan error{}
	start := func(s *Stream, n int) {
		t.Helper()
		ch := make(chan error, 1)
		done[s] = ch
		go func() { ch <- s.Write(context.Background(), &Out{Data: c.cfg.Pool.Get(n)}) }()
		eventually("a Write does not wait", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return s.wait != nil && s.wait.active
		})
	}
	sent := func() (of map[*Stream]int, all int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		of = map[*Stream]int{}
		for _, f := range r.seen {
			for _, s := range streams[1:] {
				if f.typ == http2.FrameData && f.id == s.ID() {
					of[s] += f.n
					all += f.n
				}
			}
		}
		return of, all
	}
	given := 0
	grant := func() map[*Stream]int {
		t.Helper()
		given += short
		r.fr.WriteWindowUpdate(0, short)
		var of map[*Stream]int
		eventually("the window is not used", func() bool {
			var all int
			of, all = sent()
			return all == given
		})
		return of
	}
	start(large, long)
	for _, s := range small {
		start(s, short)
	}
	before := map[*Stream]int{}
	for of := before; of[large] < long || of[small[0]] == 0 || of[small[1]] == 0; before = of {
		if given >= most*short {
			t.Fatalf("a long Write sent %d bytes beside %d and %d of short ones", of[large], of[small[0]], of[small[1]])
		}
		of = grant()
		for _, s := range small {
			if of[s] == before[s] {
				continue
			}
			if err := <-done[s]; err != nil {
				t.Fatal(err)
			}
			start(s, short)
		}
	}
	grant()
	grant()
	for _, ch := range done {
		if err := <-ch; err != nil {
			t.Error(err)
		}
	}
	for _, s := range streams {
		s.Release()
	}
}

// TestTurnsByBytes: a stream that makes one long Write after another gets a fifth of a
// window that the short Writes of many streams use up, however long its Writes are, and
// these leave in the order in which they came.
func TestTurnsByBytes(t *testing.T) {
	for _, long := range []int{passing + 1, 64_000, 1_000_000} {
		for _, short := range []int{8_000, 15_000} {
			t.Run(fmt.Sprint(long, " beside ", short), func(t *testing.T) { testTurnsByBytes(t, long, short) })
		}
	}
}

// wideClient is a client whose peer opens the windows of streams as far as they go, and that of the connection not
// beyond initialWindow. end closes both and waits for the client's Run.
func wideClient(t *testing.T) (c *Conn, pool *tarn.Pool, r *raw, end func()) {
	t.Helper()
	a, b := bufferedPipe()
	pool = tarntest.NewPool(t)
	rec := newRecorder(t)
	c, err := NewClient(a, rec, Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); c.Run() }()
	r = newRaw(t, b)
	if _, err := io.ReadFull(b, make([]byte, len(Preface))); err != nil {
		t.Fatal(err)
	}
	go r.listen()
	r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
	<-rec.gotSettings
	return c, pool, r, func() {
		a.Close()
		b.Close()
		<-run
	}
}

func testTurnsByBytes(t *testing.T, long, short int) {
	const callers, wanted = 16, 600_000
	synctest.Test(t, func(t *testing.T) {
		c, pool, r, end := wideClient(t)
		open := func(n int) *Stream {
			t.Helper()
			o := &Out{Block: testRequest}
			if n > 0 {
				o.Data = pool.Get(n)
			}
			s, err := c.Open(context.Background(), newCall(), o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		streams := []*Stream{open(initialWindow), open(0)}
		large := streams[1]
		for range callers {
			streams = append(streams, open(0))
		}
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		var begun, passed []uint32 // short Writes, by stream
		start := func(s *Stream, n int) {
			wg.Go(func() { s.Write(ctx, &Out{Data: pool.Get(n)}) })
			synctest.Wait()
			if s != large {
				begun = append(begun, s.ID())
			}
		}
		start(large, long)
		for _, s := range streams[2:] {
			start(s, short)
		}
		of := map[uint32]int{}
		seen, all := 0, 0
		for of[large.ID()] < wanted {
			r.fr.WriteWindowUpdate(0, uint32(short))
			synctest.Wait()
			r.mu.Lock()
			frames := r.seen[seen:]
			seen = len(r.seen)
			r.mu.Unlock()
			for _, f := range frames {
				if f.typ != http2.FrameData || f.id == streams[0].ID() {
					continue
				}
				of[f.id] += f.n
				all += f.n
				if f.id != large.ID() && of[f.id]%short == 0 {
					passed = append(passed, f.id)
				}
			}
			for _, s := range streams[1:] {
				s.c.mu.Lock()
				waits := s.wait.active
				s.c.mu.Unlock()
				if n := short; !waits {
					if s == large {
						n = long
					}
					start(s, n)
				}
			}
			if all > 6*wanted {
				t.Fatalf("long Writes sent %d of %d bytes", of[large.ID()], all)
			}
		}
		if !slices.Equal(passed, begun[:len(passed)]) {
			t.Errorf("short Writes of streams %v left in the order %v", begun, passed)
		}
		cancel()
		wg.Wait()
		for _, s := range streams {
			s.Release()
		}
		end()
	})
}

// TestIncremental: incremental streams share the connection's window in turns of 32 KiB.
func TestIncremental(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4 * incrementalTurn
		c, pool, r, end := wideClient(t)
		fill, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Data: pool.Get(initialWindow)})
		if err != nil {
			t.Fatal(err)
		}
		streams := []*Stream{fill}
		var wg sync.WaitGroup
		for range 3 {
			s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			s.SetPriority(Priority{Urgency: 3, Incremental: true})
			wg.Go(func() {
				if err := s.Write(context.Background(), &Out{Data: pool.Get(size), Ending: End}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			streams = append(streams, s)
		}
		sent := map[uint32]int{}
		seen := 0
		for range 3 * size / incrementalTurn {
			r.fr.WriteWindowUpdate(0, incrementalTurn)
			synctest.Wait()
			r.mu.Lock()
			frames := r.seen[seen:]
			seen = len(r.seen)
			r.mu.Unlock()
			for _, f := range frames {
				if f.typ == http2.FrameData && f.id != fill.ID() {
					sent[f.id] += f.n
				}
			}
			least, most := size, 0
			for _, s := range streams[1:] {
				least, most = min(least, sent[s.ID()]), max(most, sent[s.ID()])
			}
			if most-least > incrementalTurn {
				t.Fatalf("out of turn: %v", sent)
			}
		}
		wg.Wait()
		for _, s := range streams {
			s.Release()
		}
		end()
	})
}
