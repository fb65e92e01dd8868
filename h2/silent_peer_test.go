package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// answering is a server's handler that answers each request at once, with n bytes.
type answering struct {
	pool *tarn.Pool
	n    int
}

func (h answering) OnHeaders(s *Stream, _ *Header, _ Ending) {
	s.Post(&Out{Block: testResponse, Data: h.pool.Copy(make([]byte, h.n)), TrailerBlock: testTrailer})
	s.Release()
}
func (answering) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (answering) OnReset(*Stream, error)                    {}

// toServer has f be a client, which does not answer by itself, of a server with handler h, in fake time.
func toServer(t *testing.T, a, b net.Conn, h Handler, cfg Config, f func(t *testing.T, m *Maker, s *Conn, r *raw)) {
	m, err := Servers(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := m.Make(b, h)
	run := make(chan struct{})
	go func() { defer close(run); s.Run() }()
	r := newRaw(t, a)
	defer func() { a.Close(); <-run }()
	f(t, m, s, r)
}

// TestKeepaliveReported: a connection whose peer does not answer keepalive ends after its times, with a line and
// a counter.
func TestKeepaliveReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, pool := new(logBuffer), tarntest.NewPool(t)
		a, b := bufferedPipe()
		cfg := Config{Pool: pool, Log: slog.New(slog.NewTextHandler(log, nil)),
			Keepalive: Keepalive{Time: 10 * time.Second, Timeout: 5 * time.Second, WithoutStream: Permit}}
		toServer(t, a, b, new(neverStarted), cfg, func(t *testing.T, m *Maker, s *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings()
			go r.listen()
			<-time.After(14 * time.Second)
			synctest.Wait()
			if n := m.Stats().KeepaliveTimeouts; n != 0 || s.Err() != nil || log.String() != "" {
				t.Fatalf("after 14 s %d timeouts, %v, %q", n, s.Err(), log)
			}
			<-time.After(2 * time.Second)
			<-s.Done()
			if n := m.Stats().KeepaliveTimeouts; n != 1 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "level=WARN") {
				t.Errorf("%d timeouts, logged: %q", n, log)
			}
		})
	})
}

// TestShutdownOfIdleConnection: a server without streams has ended a second after Shutdown if its client answers the PING and does
// not close the connection, and also if it sends nothing; a client that sends something is waited for, as before.
func TestShutdownOfIdleConnection(t *testing.T) {
	const ms = time.Millisecond
	for name, x := range map[string]struct {
		play func(r *raw)    // after Shutdown
		want []time.Duration // of the second GOAWAY and of the end
	}{
		"silent":  {func(r *raw) {}, []time.Duration{750 * ms, 1000 * ms}},
		"answers": {func(r *raw) { r.fr.WritePing(true, goAwayPing) }, []time.Duration{0, 1000 * ms}},
		"closes": {func(r *raw) {
			r.fr.WritePing(true, goAwayPing)
			r.wait("second GOAWAY", func(s seen) bool { return s.typ == http2.FrameGoAway && s.id == 1 })
			r.nc.Close()
		}, []time.Duration{0, 0}},
		"sends something": {func(r *raw) { r.fr.WriteWindowUpdate(0, 1) }, []time.Duration{5000 * ms, 6000 * ms}},
		"a late request": {func(r *raw) {
			r.request(3, End)
			r.fr.WritePing(true, goAwayPing)
		}, []time.Duration{0, 1000 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := bufferedPipe()
				pool := tarntest.NewPool(t)
				toServer(t, a, b, answering{pool, 10}, Config{Pool: pool}, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
					io.WriteString(a, Preface)
					r.fr.WriteSettings()
					r.fr.WriteSettingsAck()
					go r.listen()
					r.request(1, End)
					synctest.Wait()
					s.Shutdown("")
					synctest.Wait()
					begun := time.Now()
					x.play(r)
					var got []time.Duration
					r.wait("second GOAWAY", func(s seen) bool { return s.typ == http2.FrameGoAway && s.id < maxStreamID })
					got = append(got, time.Since(begun))
					<-s.Done()
					if got = append(got, time.Since(begun)); !slices.Equal(got, x.want) {
						t.Errorf("%v, not %v", got, x.want)
					}
				})
			})
		})
	}
}

// writingHandler is a server's handler that has each stream written to by a goroutine of its own.
type writingHandler struct {
	write func(s *Stream)
	calls sync.WaitGroup
}

func (h *writingHandler) OnHeaders(s *Stream, _ *Header, _ Ending)  { h.calls.Go(func() { h.write(s) }) }
func (h *writingHandler) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (h *writingHandler) OnReset(*Stream, error)                    {}

// TestDataNotReadRefusesNothing: DATA that a slow peer's windows permit fills what may wait to be sent. The peer
// has asked for no more than its windows, so its further requests are served.
func TestDataNotReadRefusesNothing(t *testing.T) {
	const (
		requests = 1000
		answer   = 100
	)
	for _, size := range []int{100, 10 << 10, 16 << 10, 16<<10 + 1, 100 << 10, 1 << 20} {
		t.Run(fmt.Sprintf("messages of %d bytes", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := tarntest.NewPool(t)
				ctx, cancel := context.WithCancel(t.Context())
				h := &writingHandler{write: func(s *Stream) {
					if s.ID() > 1 {
						s.Write(ctx, &Out{Block: testResponse, Data: pool.Copy(make([]byte, answer)), TrailerBlock: testTrailer, Release: true})
						return
					}
					defer s.Release()
					for o := (Out{Block: testResponse}); ctx.Err() == nil; o = (Out{}) {
						o.Data = pool.Copy(make([]byte, size))
						if s.Write(ctx, &o) != nil {
							return
						}
					}
				}}
				a, b := net.Pipe()
				toServer(t, a, b, h, Config{Pool: pool, MaxStreams: 2 * requests}, func(t *testing.T, m *Maker, s *Conn, r *raw) {
					defer h.calls.Wait()
					defer cancel()
					io.WriteString(a, Preface)
					r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
					r.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
					r.request(1, End)
					synctest.Wait() // as much of stream 1 waits as may
					for i := range requests {
						if err := r.request(uint32(2*i+3), End); err != nil {
							t.Fatal(err)
						}
					}
					synctest.Wait()
					if n := m.Stats().Refused; n != 0 {
						t.Errorf("%d of %d requests were refused", n, requests)
					}
					go r.listen()
					r.wait("end of the last", func(s seen) bool { return s.id == 2*requests+1 && (s.end || s.typ == http2.FrameRSTStream) })
				})
			})
		})
	}
}

// TestAnswersNotRead: while 2 MiB of answers wait for a peer that does not read, its requests are refused; when
// it reads, they are served again.
func TestAnswersNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, requests = 10 << 10, 400
		pool := tarntest.NewPool(t)
		a, b := net.Pipe()
		toServer(t, a, b, answering{pool, size}, Config{Pool: pool}, func(t *testing.T, m *Maker, s *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
			r.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
			for i := range requests {
				if err := r.request(uint32(2*i+1), End); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			refused := m.Stats().Refused
			// As much may be under way as waits.
			if served := requests - int(refused); served*size < refuseAbove || served*size > 2*refuseAbove+minFill {
				t.Errorf("%d requests of %d were served", served, requests)
			}
			if held := pool.Stats().InUse; held > 4*refuseAbove {
				t.Errorf("%d bytes are in use", held)
			}
			go r.listen()
			synctest.Wait()
			if n := r.count(func(s seen) bool { return s.typ == http2.FrameRSTStream && Code(s.code) == RefusedStream }); n != int(refused) {
				t.Errorf("%d of %d refusals arrived", n, refused)
			}
			id := uint32(2*requests + 1)
			if err := r.request(id, End); err != nil {
				t.Fatal(err)
			}
			r.wait("answer", func(s seen) bool { return s.id == id && s.end })
		})
	})
}

// TestAnswersNotReadAreCounted: requests that are refused because their client does not read count as those that it makes the
// server reset, and end the connection beyond Limits.Resets.
func TestAnswersNotReadAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, resets = 64 << 10, 20
		pool := tarntest.NewPool(t)
		a, b := net.Pipe()
		toServer(t, a, b, answering{pool, size}, Config{Pool: pool, Limits: Limits{Resets: resets}}, func(t *testing.T, m *Maker, s *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
			r.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
			const most = 2*refuseAbove/size + 2*resets
			sent := 0
			for ; sent < most && r.request(uint32(2*sent+1), End) == nil; sent++ {
			}
			<-s.Done()
			var ce *ConnError
			if err := s.Err(); !errors.As(err, &ce) || ce.Code != EnhanceYourCalm || ce.Fault != Peer {
				t.Errorf("after %d requests the connection ended with %v", sent, err)
			}
			if n := m.Stats().Refused; n != resets {
				t.Errorf("%d requests were refused, not %d", n, resets)
			}
		})
	})
}
