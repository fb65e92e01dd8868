package h2

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// goroutines counts this package's goroutines and those of its tests in a dump of all stacks. runtime.NumGoroutine
// counts others, too: timers of pools that earlier tests have left, and up to 32 ended ones while the runtime moves
// their records between its lists.
func goroutines() (n int, stacks string) {
	for buf := make([]byte, 1<<16); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, true); n < len(buf) {
			stacks = string(buf[:n])
			break
		}
	}
	for g := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(g, "github.com/tarn-go/tarn/h2.") {
			n++
		}
	}
	return n, stacks
}

// bounded runs attack and checks that meanwhile neither goroutines nor the
// server's memory rise beyond what is stated.
func bounded(t testing.TB, s *Conn, limit int, memory int64, attack func()) {
	t.Helper()
	before, _ := goroutines()
	stop, done := make(chan struct{}), make(chan struct{})
	most, stacks, held := 0, "", int64(0)
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			if runtime.NumGoroutine()-before > max(most, limit) {
				if n, dump := goroutines(); n-before > most {
					most, stacks = n-before, dump
				}
			}
			s.mu.Lock()
			held = max(held, int64(s.send.out.Len()))
			s.mu.Unlock()
			held = max(held, s.cfg.Pool.Stats().InUse)
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	attack()
	close(stop)
	<-done
	if most > limit {
		t.Errorf("%d goroutines more, %d allowed:\n%s", most, limit, stacks)
	}
	if held > memory {
		t.Errorf("%d bytes held, %d allowed", held, memory)
	}
}

// TestContinuationFlood is CVE-2023-45288.
func TestContinuationFlood(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		for name, n := range map[string]int{"long": 8000, "empty": 0} {
			t.Run(name, func(t faultnet.OnKind) {
				r, s, _ := rawServer(t, Config{}, nil)
				bounded(t, s, 5, 1<<20, func() {
					r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
					r.flood(100_000, func(int) error { return r.fr.WriteContinuation(1, false, make([]byte, n)) })
				})
				r.wantEnd(s, EnhanceYourCalm)
			})
		}
	})
}

// TestHeaderList: a list beyond the limit costs the stream, not the connection,
// and indexed repetition of one large field is counted, not stored.
func TestHeaderList(t *testing.T) {
	r, s, _ := rawServer(t, Config{MaxHeaderList: 20_000}, nil)
	bounded(t, s, 5, 1<<20, func() {
		fields := append([]string(nil), rawRequest...)
		for range 9000 {
			fields = append(fields, "x-bomb", strings.Repeat("b", 3000))
		}
		r.headers(1, End, fields...)
		r.wantReset(1, EnhanceYourCalm)
		r.lives(3)
	})
}

// TestPingFlood: the peer reads nothing, so its answers pile up.
func TestPingFlood(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		for _, name := range []string{"ping", "settings"} {
			t.Run(name, func(t faultnet.OnKind) {
				a, b := wireOver(t)
				pool, _ := tarn.NewPool(tarn.PoolConfig{})
				rec := newRecorder(t)
				s, err := NewServer(b, rec, Config{Pool: pool, Policy: PingPolicy{MinTime: -1}})
				if err != nil {
					t.Fatal(err)
				}
				run := make(chan error, 1)
				go func() { run <- s.Run() }()
				defer a.Close()
				r := newRaw(t, a)
				a.Write([]byte(Preface))
				r.fr.WriteSettings()
				bounded(t, s, 5, 1<<20, func() {
					r.flood(5_000_000, func(i int) error {
						if name == "ping" {
							return r.fr.WritePing(false, [8]byte{1})
						}
						return r.fr.WriteSettings()
					})
					err = <-run
				})
				if !strings.Contains(fmt.Sprint(err), "ENHANCE_YOUR_CALM") {
					t.Errorf("ended with %v", err)
				}
			})
		}
	})
}

// TestTooManyPings is gRPC's policing.
func TestTooManyPings(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		r, s, _ := rawServer(t, Config{Policy: PingPolicy{MinTime: time.Minute}}, nil)
		r.fr.WritePing(false, [8]byte{1})
		for range 2 {
			r.fr.WritePing(false, [8]byte{2})
		}
		r.lives(1)    // HEADERS and DATA that are sent clear the strikes
		for range 4 { // the first is not checked
			r.fr.WritePing(false, [8]byte{3})
		}
		r.wantEnd(s, EnhanceYourCalm)
		<-s.Done()
		var ce *ConnError
		if err := s.Err(); !errors.As(err, &ce) || ce.Reason != "too_many_pings" {
			t.Errorf("ended with %v", err)
		}
		saysWhy := func(s seen) bool { return s.typ == http2.FrameGoAway && s.text == "too_many_pings" }
		if t.Kind == faultnet.TCP && r.count(saysWhy) != 1 {
			t.Error("the GOAWAY does not say why")
		}
	})
}

// TestUselessFrames: frames that carry nothing, with nothing useful between.
func TestUselessFrames(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		for name, send := range map[string]func(r *raw, i int) error{
			"empty DATA": func(r *raw, i int) error { return r.fr.WriteData(1, false, nil) },
			"padding":    func(r *raw, i int) error { return r.fr.WriteDataPadded(1, false, nil, make([]byte, 200)) },
			"PRIORITY": func(r *raw, i int) error {
				return r.fr.WritePriority(uint32(2*i+3), http2.PriorityParam{StreamDep: 0})
			},
			"PRIORITY_UPDATE": func(r *raw, i int) error {
				return r.fr.WriteRawFrame(http2.FrameType(framePriorityUpdate), 0, 0, []byte{0, 0, byte(i >> 8), byte(i) | 1, 'i'})
			},
			"unknown":          func(r *raw, i int) error { return r.fr.WriteRawFrame(0xbe, 0, 0, []byte("junk")) },
			"WINDOW_UPDATE":    func(r *raw, i int) error { return r.fr.WriteWindowUpdate(1, 1) },
			"PING ack":         func(r *raw, i int) error { return r.fr.WritePing(true, [8]byte{1}) },
			"SETTINGS ack":     func(r *raw, i int) error { return r.fr.WriteSettingsAck() },
			"stray RST_STREAM": func(r *raw, i int) error { return r.fr.WriteRSTStream(1, http2.ErrCodeCancel) },
			"RST_STREAM of idle streams": func(r *raw, i int) error {
				return r.fr.WriteRSTStream(uint32(2*i+3), http2.ErrCodeCancel)
			},
		} {
			t.Run(name, func(t faultnet.OnKind) {
				r, s, _ := rawServer(t, Config{IdleResets: Permit, Limits: Limits{Useless: 1000}}, nil)
				r.request(1, More)
				bounded(t, s, 5, 1<<20, func() {
					if n := r.flood(5_000_000, func(i int) error { return send(r, i) }); n == 5_000_000 {
						t.Error("the connection survived all of them")
					}
				})
				r.wantEnd(s, EnhanceYourCalm)
			})
		}
	})
}

// TestIdleResets has a client reset streams that it has not opened: beside an open stream, before the first, and one that it opens later.
func TestIdleResets(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		r, s, _ := rawServer(t, Config{IdleResets: Permit}, nil)
		r.fr.WriteRSTStream(1, http2.ErrCodeCancel)
		r.lives(3)
		r.request(5, More)
		r.fr.WriteRSTStream(9, http2.ErrCodeCancel)
		r.fr.WriteRSTStream(13, http2.ErrCodeCancel)
		r.lives(7)
		r.lives(9)
		r.fr.WriteData(5, true, []byte("alive"))
		r.wait("the answer of the open stream", func(s seen) bool { return s.id == 5 && s.typ == http2.FrameHeaders && s.end })
		r.fr.WriteRSTStream(2, http2.ErrCodeCancel) // a server's stream
		r.wantEnd(s, ProtocolError)
		r, s, _ = rawServer(t, Config{}, nil)
		r.lives(1)
		r.fr.WriteRSTStream(3, http2.ErrCodeCancel)
		r.wantEnd(s, ProtocolError)
	})
}

// TestUselessFramesWhileWriting has frames that carry nothing come while handlers write, which clears their count from
// other goroutines: the race detector checks that Run counts them under the lock.
func TestUselessFramesWhileWriting(t *testing.T) {
	const frames, writes = 500, 500
	r, _, _ := rawServer(t, Config{}, func(s *Stream, k *call) {
		for i := range writes {
			o := &Out{Data: s.c.cfg.Pool.Copy([]byte("x"))}
			if i == 0 {
				o.Block = testResponse
			}
			if i == writes-1 {
				o.Ending = End
			}
			if err := s.Write(context.Background(), o); err != nil {
				t.Error(err)
				return
			}
		}
	})
	r.request(1, End)
	r.wait("response", func(s seen) bool { return s.id == 1 && s.typ == http2.FrameHeaders })
	for i := range frames {
		r.fr.WritePriority(uint32(2*i+3), http2.PriorityParam{})
		r.fr.WriteRawFrame(0xbe, 0, 0, []byte("junk"))
	}
	r.wait("the response's end", func(s seen) bool { return s.id == 1 && s.end })
}

// TestAskedAcknowledgementsAreNotCounted: acknowledgements of what this side has sent are no useless frames, however
// many Pings there are in a time, also when they come after the Ping was cancelled. More than that are.
func TestAskedAcknowledgementsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		cfg := Config{Pool: tarntest.NewPool(t), Limits: Limits{Useless: 2}}
		toServer(t, a, b, new(neverStarted), cfg, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings() // counts: one is left
			r.fr.WriteSettingsAck()
			go r.listen()
			for i := range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				pinged := make(chan error, 1)
				go func() {
					_, err := s.Ping(ctx)
					pinged <- err
				}()
				synctest.Wait()
				if i%2 == 1 {
					cancel()
					synctest.Wait()
				}
				var data [8]byte
				binary.BigEndian.PutUint64(data[:], pingFirst+uint64(i))
				r.fr.WritePing(true, data)
				if err := <-pinged; i%2 == 0 && err != nil || i%2 == 1 && err != context.Canceled {
					t.Fatalf("Ping %d: %v", i, err)
				}
				cancel()
			}
			r.fr.WritePing(true, [8]byte{1})
			synctest.Wait()
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			r.fr.WritePing(true, [8]byte{1})
			r.wantGoAway(EnhanceYourCalm)
		})
	})
}

// TestWindowOverflow: windows beyond 2^31-1.
func TestWindowOverflow(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		r, s, _ := rawServer(t, Config{}, nil)
		r.request(1, More)
		r.fr.WriteWindowUpdate(1, maxWindow)
		r.wantReset(1, FlowControlError)
		r.lives(3)
		r.fr.WriteWindowUpdate(0, maxWindow)
		r.wantEnd(s, FlowControlError)
	})
}

// TestOverrun: DATA beyond a stream's window costs the stream, beyond the
// connection's the connection.
func TestOverrun(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		r, s, rec := rawServer(t, Config{Window: 100_000, MaxWindow: 100_000, ConnWindow: 1 << 20}, nil)
		rec.hold = true
		chunk := make([]byte, 16384)
		r.request(1, More)
		for range 7 {
			r.fr.WriteData(1, false, chunk)
		}
		r.wantReset(1, FlowControlError)
		r.lives(3)
		_ = s
		huge := make([]byte, 100_001)
		r.request(5, More)
		bounded(t, s, 5, 4<<20, func() {
			r.fr.WriteData(5, false, huge)
		})
		r.wantReset(5, FlowControlError)
		for range 11 {
			r.fr.WriteData(5, false, huge)
		}
		r.fr.WriteData(5, false, make([]byte, 1<<20))
		r.wantEnd(s, FlowControlError)
	})
}

// TestAttackUnfinishedHeaders is a peer that begins a header list and sends nothing more:
// the frame is not complete, or a CONTINUATION is missing. HeaderTimeout ends that.
func TestAttackUnfinishedHeaders(t *testing.T) {
	block := []byte{0x82, 0x86, 0x84} // GET, http, /
	for name, begun := range map[string][]byte{
		"frame":        append([]byte{0, 0, 100, 1, 5, 0, 0, 0, 1}, block...),
		"CONTINUATION": append([]byte{0, 0, 3, 1, 1, 0, 0, 0, 1}, block...),
	} {
		t.Run(name, func(t *testing.T) {
			r, _, _ := rawServer(t, Config{HeaderTimeout: 50 * time.Millisecond}, nil)
			r.request(1, End) // is answered
			r.wait("answer", func(s seen) bool { return s.id == 1 && s.end })
			begun[8] = 3
			r.nc.Write(begun)
			r.wantGoAway(EnhanceYourCalm)
		})
	}
}
