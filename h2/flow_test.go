package h2

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// TestSendWindows: whatever windows the peer grants, takes back and grants again,
// nothing is sent beyond them, and everything arrives.
func TestSendWindows(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		r, c, _ := rawClient(t, Config{})
		const streams = 6
		want := map[uint32]int{}
		var calls []*Stream
		for range streams {
			s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, s)
			want[s.ID()] = 1 + rnd.IntN(300_000)
		}
		var wg sync.WaitGroup
		for _, s := range calls {
			total := want[s.ID()]
			pieces := rand.New(rand.NewPCG(seed, uint64(s.ID())))
			wg.Add(1)
			go func() {
				defer wg.Done()
				for total > 0 {
					n := min(total, 1+pieces.IntN(50_000))
					total -= n
					o := &Out{Data: c.cfg.Pool.Get(n)}
					if total == 0 {
						o.Ending = End
					}
					if err := s.Write(context.Background(), o); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
		grant(r, rnd, want)
		wg.Wait()
		for _, s := range calls {
			s.Release()
		}
		r.nc.Close()
		<-c.Done()
	}
}

// grant plays the receiver: it models the windows, checks each DATA frame against
// them and opens them at random until everything has come.
func grant(r *raw, rnd *rand.Rand, want map[uint32]int) {
	conn, initial := initialWindow, initialWindow
	win, got := map[uint32]int{}, map[uint32]int{}
	for id := range want {
		win[id] = initialWindow
	}
	left := len(want)
	for i := 0; left > 0; {
		r.mu.Lock()
		stuck := true
		for ; i < len(r.seen); i++ {
			s := r.seen[i]
			if s.typ != http2.FrameData {
				continue
			}
			stuck = false
			conn -= s.n
			win[s.id] -= s.n
			got[s.id] += s.n
			if conn < 0 || win[s.id] < 0 && s.n > 0 {
				r.t.Errorf("stream %d: window %d, connection %d", s.id, win[s.id], conn)
			}
			if s.end {
				left--
				if got[s.id] != want[s.id] {
					r.t.Errorf("stream %d: %d bytes of %d came", s.id, got[s.id], want[s.id])
				}
			}
		}
		if left > 0 && stuck && conn > 0 && anyOpen(win, got, want) {
			n := len(r.seen)
			for len(r.seen) == n && !r.closed {
				r.cond.Wait() // something may still be sent
			}
			if r.closed {
				r.mu.Unlock()
				r.t.Error("the connection ended")
				return
			}
			r.mu.Unlock()
			continue
		}
		r.mu.Unlock()
		// A window grows as soon as it is granted, but shrinks only once the peer
		// knows: so take back no more than is certain to be unused, which here is
		// nothing, and shrink only what new grants outweigh.
		n := 1 + rnd.IntN(40_000)
		conn += n
		r.fr.WriteWindowUpdate(0, uint32(n))
		for id := range win {
			if got[id] == want[id] {
				continue
			}
			m := 1 + rnd.IntN(20_000)
			win[id] += m
			r.fr.WriteWindowUpdate(id, uint32(m))
		}
		if rnd.IntN(4) == 0 {
			d := rnd.IntN(10_000)
			initial += d
			for id := range win {
				win[id] += d
			}
			r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(initial)})
		}
	}
}

// anyOpen reports whether any unfinished stream may send.
func anyOpen(win, got, want map[uint32]int) bool {
	for id, w := range win {
		if got[id] < want[id] && w > 0 {
			return true
		}
	}
	return false
}

// TestNegativeWindow: a smaller INITIAL_WINDOW_SIZE may leave a stream's window
// below zero (RFC 9113 section 6.9.2); it has to be filled up before more is sent.
func TestNegativeWindow(t *testing.T) {
	r, c, _ := rawClient(t, Config{})
	s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest, Data: c.cfg.Pool.Get(60_000)})
	if err != nil {
		t.Fatal(err)
	}
	r.fr.WriteWindowUpdate(0, 1<<20)
	r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
	acks := 0
	r.wait("second acknowledgement", func(s seen) bool {
		if s.typ == http2.FrameSettings && s.ack {
			acks++
		}
		return acks == 2
	})
	c.mu.Lock()
	if s.out != 1000-60_000 {
		t.Errorf("the window is %d", s.out)
	}
	c.mu.Unlock()
	wrote := make(chan error, 1)
	go func() { wrote <- s.Write(context.Background(), &Out{Data: c.cfg.Pool.Get(500), Ending: End}) }()
	r.fr.WriteWindowUpdate(s.ID(), 59_000) // exactly nothing
	r.fr.WriteWindowUpdate(s.ID(), 500)
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	r.wait("the rest", func(s seen) bool { return s.typ == http2.FrameData && s.end && s.n == 500 })
	s.Release()
}

// TestUnreadCap: DATA that is not consumed withholds the connection's window; consuming
// gives it back.
func TestUnreadCap(t *testing.T) {
	r, s, rec := rawServer(t, Config{Window: 1 << 20, MaxWindow: 1 << 20, ConnWindow: 128 << 10, Unread: 64 << 10}, nil)
	rec.hold = true
	r.request(1, More)
	chunk := make([]byte, 16<<10)
	for range 8 {
		r.fr.WriteData(1, false, chunk)
	}
	r.fr.WritePing(false, [8]byte{})
	r.wait("pong", func(s seen) bool { return s.typ == http2.FramePing })
	given := func() (n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range r.seen {
			if s.typ == http2.FrameWindowUpdate && s.id == 0 {
				n += s.n
			}
		}
		return n
	}
	before := given()
	s.mu.Lock()
	st := s.streams.get(1)
	s.mu.Unlock()
	st.Consumed(8 * len(chunk))
	r.wait("the window", func(seen) bool { return true })
	r.wait("WINDOW_UPDATE of the connection", func(x seen) bool {
		return x.typ == http2.FrameWindowUpdate && x.id == 0 && x.n >= 4*len(chunk)
	})
	if before > 80<<10+128<<10-initialWindow {
		t.Errorf("%d given with nothing consumed", before)
	}
}

// TestGrowth: a window that limits the peer grows, to MaxWindow, to Config.Unread or, if the peer is near, to nearWindow.
// Time is synctest's.
func TestGrowth(t *testing.T) {
	for _, x := range []struct {
		name     string
		rtt      time.Duration
		conf     Config
		min, max int // of the window in the end
	}{
		{"to MaxWindow", 10 * time.Millisecond, Config{Window: 64 << 10, MaxWindow: 4 << 20}, 4 << 20, 4 << 20},
		{"to MaxWindow, round trip measured twice", 2 * time.Millisecond, Config{Window: 64 << 10, MaxWindow: 4 << 20}, 4 << 20, 4 << 20},
		{"near", 200 * time.Microsecond, Config{Window: 64 << 10, MaxWindow: 4 << 20}, nearWindow, nearWindow},
		{"near, to MaxWindow", 200 * time.Microsecond, Config{Window: 64 << 10, MaxWindow: 512 << 10}, 512 << 10, 512 << 10},
		{"fixed", 10 * time.Millisecond, Config{Window: 64 << 10, MaxWindow: 64 << 10}, 64 << 10, 64 << 10},
		{"to Unread", 10 * time.Millisecond, Config{Window: 64 << 10, MaxWindow: 4 << 20, Unread: 512 << 10}, 512 << 10, 512 << 10},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, delayed(x.rtt), Config{idleAfter: time.Hour}, x.conf)
				p.do(t, make([]byte, 16<<20))
				p.s.mu.Lock()
				w, conn := p.s.inflow.window, p.s.inflow.size
				p.s.mu.Unlock()
				if want := max(2*w, defaultConnWin); conn != want {
					t.Errorf("the connection's window is %d, not %d", conn, want)
				}
				if w < x.min || w > x.max {
					t.Errorf("a window of %d, expected %d to %d", w, x.min, x.max)
				}
			})
		})
	}
}

// TestUploadRoundTrips counts the round trips that long requests take with the windows of
// package h2http, on a network without any other limit: the first ones open the window. Time is
// synctest's.
func TestUploadRoundTrips(t *testing.T) {
	const rtt = 10 * time.Millisecond
	for _, x := range []struct {
		size      int     // of each request
		new, open float64 // round trips at most, on a new connection and when the window is open
	}{{24 << 20, 4, 2}, {64 << 20, 7, 5}} {
		t.Run(fmt.Sprintf("%d MiB", x.size>>20), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, delayed(rtt), Config{idleAfter: time.Hour}, Config{Window: 352 << 10, MaxWindow: 16 << 20, idleAfter: time.Hour})
				p.sh.serve = func(s *Stream, k *call) {
					if err := s.Write(context.Background(), &Out{Block: testResponse, TrailerBlock: testTrailer}); err != nil {
						t.Error(err)
					}
				}
				body := make([]byte, x.size)
				for _, most := range []float64{x.new, x.open} {
					start := time.Now()
					p.do(t, body)
					if trips := float64(time.Since(start)) / float64(rtt); trips > most {
						t.Errorf("%.2f round trips, %.0f allowed", trips, most)
					} else {
						t.Logf("%.2f round trips", trips)
					}
				}
			})
		})
	}
}

// delayed wires by two pipes and a relay that takes as many bytes as are sent and
// delivers them half a round trip later.
func delayed(rtt time.Duration) wiring {
	return func(t testing.TB) (net.Conn, net.Conn) {
		a, x := net.Pipe()
		y, b := net.Pipe()
		var relays sync.WaitGroup
		relays.Go(func() { delay(y, x, rtt/2) })
		relays.Go(func() { delay(x, y, rtt/2) })
		t.Cleanup(relays.Wait)
		return a, b
	}
}

func delay(dst, src net.Conn, d time.Duration) {
	type piece struct {
		due  time.Time
		data []byte
	}
	queue := make(chan piece, 1<<16)
	var sender sync.WaitGroup
	defer sender.Wait()
	sender.Go(func() {
		for p := range queue {
			<-time.After(time.Until(p.due)) // synctest's time
			if _, err := dst.Write(p.data); err != nil {
				src.Close()
			}
		}
		dst.Close()
	})
	for {
		data := make([]byte, 64<<10)
		n, err := src.Read(data)
		queue <- piece{time.Now().Add(d), data[:n]}
		if err != nil {
			close(queue)
			return
		}
	}
}

// TestManyShortStreamsOpenTheConnection: the connection's window, which alone limits many streams that each end before their own does, grows
// until it does not. Time is synctest's.
func TestManyShortStreamsOpenTheConnection(t *testing.T) {
	const rtt, callers, calls = 20 * time.Millisecond, 64, 12
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, delayed(rtt), Config{idleAfter: time.Hour}, Config{idleAfter: time.Hour})
		body := make([]byte, 100<<10)
		start := time.Now()
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range calls {
					p.do(t, body)
				}
			})
		}
		wg.Wait()
		trips := float64(time.Since(start)) / float64(rtt)
		t.Logf("%.1f round trips", trips)
		// With the window that it begins with, a call would take six round trips.
		if trips > 3*calls {
			t.Errorf("%.1f round trips for %d calls of each caller, %d allowed", trips, calls, 3*calls)
		}
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		if r := &p.s.inflow; r.window != defaultWindow || r.size != 2*defaultGrown {
			t.Errorf("windows of %d and %d, not %d and %d", r.window, r.size, defaultWindow, 2*defaultGrown)
		}
	})
}

// TestUnreadBoundsWhatGrows: what a server holds of bodies that nobody reads stays within Unread and the window that the connection
// begins with, also where the peer's pace makes the connection's window grow meanwhile.
func TestUnreadBoundsWhatGrows(t *testing.T) {
	const unread, first = 4 << 20, 1 << 20
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, delayed(20*time.Millisecond), Config{idleAfter: time.Hour}, Config{idleAfter: time.Hour, Unread: unread, ConnWindow: first})
		p.sh.hold = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				s, err := p.c.Open(ctx, newCall(), &Out{Block: testRequest})
				if err != nil {
					t.Error(err)
					return
				}
				s.Write(ctx, &Out{Data: p.pool.Get(1 << 20)})
				s.Reset(Cancel)
				s.Release()
			})
		}
		<-time.After(5 * time.Second)
		p.s.mu.Lock()
		got := p.s.inflow.unread
		p.s.mu.Unlock()
		if got < unread || got > unread+first {
			t.Errorf("%d bytes are unread", got)
		}
		cancel()
		wg.Wait()
	})
}

// TestPostWithoutDataBelowZero: a peer that lowers INITIAL_WINDOW_SIZE makes the windows of open streams negative (RFC 9113 section 6.9.2).
// What has no DATA needs no window.
func TestPostWithoutDataBelowZero(t *testing.T) {
	lowered, posted := make(chan struct{}), make(chan error, 1)
	r, _, _ := rawServer(t, Config{}, func(s *Stream, k *call) {
		s.Write(nil, &Out{Block: testResponse, Data: s.c.cfg.Pool.Copy([]byte("data"))})
		<-lowered
		posted <- s.Post(&Out{TrailerBlock: testTrailer})
	})
	r.request(1, End)
	r.wait("DATA", func(s seen) bool { return s.typ == http2.FrameData })
	r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	r.fr.WritePing(false, [8]byte{1})
	r.wait("answer to PING", func(s seen) bool { return s.typ == http2.FramePing && s.ack })
	close(lowered)
	if err := <-posted; err != nil {
		t.Errorf("Post of trailers: %v", err)
	}
}
