package h2

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// TestControlFramesPrecedeQueuedDATA: a control frame that is queued while a batch of a long message is being sent leaves between two
// frames of it: what comes before it is what the network has, a part of the batch, and the frame that is next.
func TestControlFramesPrecedeQueuedDATA(t *testing.T) {
	const (
		long, other = 1, 3
		socket      = 64 << 10 // what bufferedPipe takes
		part        = 64 << 10 // what wire.Writer sends at a time
	)
	for name, x := range map[string]struct {
		cause func(p *fairPeer, s *Conn)
		is    func(f http2.Frame) bool
	}{
		"PING's acknowledgement": {
			func(p *fairPeer, _ *Conn) { p.fr.WritePing(false, [8]byte{1}) },
			func(f http2.Frame) bool { g, ok := f.(*http2.PingFrame); return ok && g.IsAck() },
		},
		"SETTINGS' acknowledgement": {
			func(p *fairPeer, _ *Conn) {
				p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 7})
			},
			func(f http2.Frame) bool { g, ok := f.(*http2.SettingsFrame); return ok && g.IsAck() },
		},
		"PING": {
			func(_ *fairPeer, s *Conn) { go s.Ping(context.Background()) },
			func(f http2.Frame) bool { g, ok := f.(*http2.PingFrame); return ok && !g.IsAck() },
		},
		"WINDOW_UPDATE": {
			func(p *fairPeer, _ *Conn) {
				p.request(other, More)
				for range 8 {
					p.fr.WriteData(other, false, make([]byte, 16<<10))
				}
			},
			func(f http2.Frame) bool {
				return f.Header().Type == http2.FrameWindowUpdate && f.Header().StreamID == other
			},
		},
		"RST_STREAM": {
			func(p *fairPeer, _ *Conn) { p.request(other, End) },
			func(f http2.Frame) bool {
				return f.Header().Type == http2.FrameRSTStream && f.Header().StreamID == other
			},
		},
		"RST_STREAM of a request that is refused": {
			func(p *fairPeer, s *Conn) {
				s.cfg.MaxStreams = 1
				p.request(other, End)
			},
			func(f http2.Frame) bool {
				return f.Header().Type == http2.FrameRSTStream && f.Header().StreamID == other
			},
		},
	} {
		for _, y := range []struct{ write, most int }{{fairLong, minMaxFrame}, {fairLong, 1 << 20}, {16 << 10, minMaxFrame}} {
			t.Run(fmt.Sprintf("%s, Writes of %d bytes, frames of %d", name, y.write, y.most), func(t *testing.T) {
				worst := 0
				for at := range 8 { // of a batch that is being sent
					synctest.Test(t, func(t *testing.T) {
						p, s, end := startFair(t, func(ctx context.Context, pool *tarn.Pool, s *Stream) {
							if s.ID() != long {
								s.Reset(InternalError)
								return
							}
							writeOn(ctx, pool, s, y.write)
						})
						defer end()
						p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: uint32(y.most)})
						p.request(long, End)
						p.read(func(http2.Frame) bool { return p.of[long] >= 1<<20+at*blockedLimit/8 })
						synctest.Wait()
						before := p.of[long]
						x.cause(p, s)
						synctest.Wait()
						p.read(x.is)
						worst = max(worst, p.of[long]-before)
					})
				}
				if limit := socket + part + min(32<<10+y.most, blockedLimit); worst > limit {
					t.Errorf("%d bytes of the message came before, more than %d", worst, limit)
				}
				t.Logf("%d bytes of the message came before", worst)
			})
		}
	}
}

// TestControlFramesFollow: what must not come before frames that are queued does not: the reset of a stream whose frames wait, and the
// acknowledgement of SETTINGS that permit less.
func TestControlFramesFollow(t *testing.T) {
	const long, other = 1, 3
	for name, x := range map[string]struct {
		cause func(p *fairPeer)
		is    func(f http2.Frame) bool
	}{
		"reset": {
			func(p *fairPeer) { p.request(other, End) },
			func(f http2.Frame) bool {
				return f.Header().Type == http2.FrameRSTStream && f.Header().StreamID == other
			},
		},
		"a smaller window": {
			func(p *fairPeer) {
				p.request(other, End)
				synctest.Wait()
				p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
				p.fr.WriteSettings() // its acknowledgement must not be taken for the first
			},
			func(f http2.Frame) bool { g, ok := f.(*http2.SettingsFrame); return ok && g.IsAck() },
		},
		"a smaller table": {
			func(p *fairPeer) {
				p.request(other, End)
				synctest.Wait()
				p.fr.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
			},
			func(f http2.Frame) bool { g, ok := f.(*http2.SettingsFrame); return ok && g.IsAck() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, end := startFair(t, func(ctx context.Context, pool *tarn.Pool, s *Stream) {
					if s.ID() == long {
						s.Write(ctx, &Out{Block: testResponse, Data: pool.Get(fairLong), Ending: End})
						return
					}
					s.Write(ctx, &Out{Block: testResponse})
					if name == "reset" {
						s.Reset(InternalError)
					}
				})
				defer end()
				p.request(long, End)
				p.read(func(http2.Frame) bool { return p.of[long] >= 1<<20 })
				synctest.Wait()
				x.cause(p)
				synctest.Wait()
				header := false
				p.read(func(f http2.Frame) bool {
					header = header || f.Header().Type == http2.FrameHeaders && f.Header().StreamID == other
					return x.is(f)
				})
				if !header {
					t.Error("it came before the header of the response that was queued first")
				}
			})
		})
	}
}

// TestFewerStreamsAreAcknowledgedInTurn: requests that a client has queued come before its acknowledgement of SETTINGS that permit fewer
// streams: a server may take those that come after it for more than it permits, and nghttp2 ends the connection then.
func TestFewerStreamsAreAcknowledgedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const others = 5
		a, b := bufferedPipe()
		pool := tarntest.NewPool(t)
		rec := newRecorder(t)
		c, err := NewClient(a, rec, Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan struct{})
		go func() { defer close(run); c.Run() }()
		p := newFairPeer(t, newRaw(t, b))
		readPreface(t, b)
		p.whole()
		<-rec.gotSettings
		var opened sync.WaitGroup
		open := func(o *Out) {
			opened.Go(func() {
				if s, err := c.Open(context.Background(), newCall(), o); err == nil {
					s.Release()
				}
			})
		}
		synctest.Wait()
		open(&Out{Block: testRequest, Data: pool.Get(fairLong), Ending: End})
		p.read(func(http2.Frame) bool { return p.of[1] >= 1<<20 })
		synctest.Wait()
		for range others {
			open(&Out{Block: testRequest, Data: pool.Get(100), Ending: More})
		}
		synctest.Wait()
		p.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
		synctest.Wait()
		requests := 0
		p.read(func(f http2.Frame) bool {
			if f.Header().Type == http2.FrameHeaders {
				requests++
			}
			g, ok := f.(*http2.SettingsFrame)
			return ok && g.IsAck()
		})
		if requests != others {
			t.Errorf("%d of %d requests came before the acknowledgement", requests, others)
		}
		a.Close()
		b.Close()
		opened.Wait()
		<-run
	})
}

// TestPingsAtDATA: a client that sends a PING with the DATA that comes, one at a time, as gRPC's do to measure the link, does not have
// too many of them, although their acknowledgements leave between the frames of one Write.
func TestPingsAtDATA(t *testing.T) {
	for _, write := range []int{fairLong, 300 << 10, 16 << 10} {
		t.Run(fmt.Sprintf("Writes of %d bytes to a fast peer", write), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const long = 1
				p, s, end := startFair(t, func(ctx context.Context, pool *tarn.Pool, s *Stream) { writeOn(ctx, pool, s, write) })
				defer end()
				s.mu.Lock()
				s.send.maxUnsent = unlimited
				s.mu.Unlock()
				p.request(long, End)
				pings, waits := 0, false
				p.read(func(f http2.Frame) bool {
					switch f := f.(type) {
					case *http2.GoAwayFrame:
						t.Errorf("after %d PINGs: %v", pings, f)
						return true
					case *http2.PingFrame:
						waits = !f.IsAck()
					case *http2.DataFrame:
						if !waits {
							pings, waits = pings+1, true
							p.fr.WritePing(false, [8]byte{1})
						}
					}
					return p.of[long] >= 8<<20
				})
				if pings < 10 {
					t.Errorf("%d PINGs", pings)
				}
			})
		})
	}
}
