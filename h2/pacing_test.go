package h2

import (
	"context"
	"io"
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/tarntest"
)

// TestPacing: what waits for a slow peer is what it takes in a tenth of a second, within bounds; it grows again when batches leave
// quickly, and the system's buffer is not bounded where full ones do.
func TestPacing(t *testing.T) {
	const ms, kib = time.Millisecond, 1 << 10
	for _, x := range []struct {
		fill, maxUnsent         int32
		n                       int
		took                    time.Duration
		wantFill, wantMaxUnsent int32
	}{
		{128 * kib, 0, 256 * kib, 2 * time.Second, 16 * kib, 16 * kib},                          // 1 Mbit/s
		{16 * kib, 16 * kib, 16 * kib, 131 * ms, 16 * kib, 16 * kib},                            // and goes on
		{16 * kib, 16 * kib, 100, time.Hour, 16 * kib, 16 * kib},                                // slower
		{128 * kib, 128 * kib, 128 * kib, 131 * ms, 64 * kib, 64 * kib},                         // 8 Mbit/s
		{64 * kib, 64 * kib, 64 * kib, 66 * ms, 64 * kib, 64 * kib},                             //
		{128 * kib, unlimited, 128 * kib, 20 * ms, 128 * kib, 128 * kib},                        // 50 Mbit/s
		{16 * kib, 16 * kib, 16 * kib, 1 * ms, 32 * kib, 32 * kib},                              // it becomes faster
		{64 * kib, 64 * kib, 64 * kib, 1 * ms, 128 * kib, 128 * kib},                            //
		{64 * kib, 64 * kib, 100, 1 * ms, 64 * kib, 64 * kib},                                   // a short batch says little
		{128 * kib, 128 * kib, 128 * kib, 500 * time.Microsecond, 128 * kib, unlimited},         //
		{128 * kib, 128 * kib, 100, time.Microsecond, 128 * kib, 128 * kib},                     //
		{128 * kib, unlimited, 128 * kib, 2 * ms, 128 * kib, unlimited},                         //
		{128 * kib, 0, 10 * kib, time.Microsecond, 128 * kib, 0},                                //
		{128 * kib, 128 * kib, math.MaxInt32, time.Duration(math.MaxInt64), 16 * kib, 16 * kib}, //
	} {
		if b, u := pacing(x.fill, x.maxUnsent, x.n, x.took); b != x.wantFill || u != x.wantMaxUnsent {
			t.Errorf("%d and %d, after %d bytes in %v: %d and %d, not %d and %d", x.fill, x.maxUnsent, x.n, x.took, b, u, x.wantFill, x.wantMaxUnsent)
		}
	}
}

// TestPingOfASlowPeer: a PING is answered soon on a connection of 1 Mbit/s that is full of DATA.
func TestPingOfASlowPeer(t *testing.T) {
	const (
		rate  = 1_000_000 / 8
		piece = 1 << 10
		soon  = 600 * time.Millisecond
	)
	for name, streams := range map[string]int{"one stream": 1, "eight streams": 8} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := tarntest.NewPool(t)
				h := &writingHandler{write: func(s *Stream) {
					defer s.Release()
					for o := (Out{Block: testResponse}); ; o = (Out{}) {
						o.Data = pool.Copy(make([]byte, 1<<20))
						if s.Write(context.Background(), &o) != nil {
							return
						}
					}
				}}
				a, b := net.Pipe()
				toServer(t, a, b, h, Config{Pool: pool}, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
					defer h.calls.Wait()
					defer a.Close()
					io.WriteString(a, Preface)
					r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow}, http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20})
					r.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
					for i := range streams {
						r.request(uint32(2*i+1), End)
					}
					in, out := io.Pipe()
					go func() {
						defer out.Close()
						for {
							if _, err := io.CopyN(out, a, piece); err != nil {
								return
							}
							<-time.After(time.Second * piece / rate)
						}
					}()
					defer in.Close()
					fr := http2.NewFramer(nil, in)
					fr.SetMaxReadFrameSize(1 << 24)
					// What was sent before the peer was known to be slow is 256 KiB.
					begun := time.Now()
					for pings, sent := 0, (time.Time{}); pings < 5; {
						f, err := fr.ReadFrame()
						if err != nil {
							t.Fatal(err)
						}
						if f.Header().Type == http2.FramePing {
							if took := time.Since(sent); took > soon {
								t.Errorf("after %v", took)
							}
							sent = time.Time{}
							pings++
						}
						if sent.IsZero() && time.Since(begun) > 10*time.Second {
							sent = time.Now()
							go http2.NewFramer(a, nil).WritePing(false, [8]byte{})
						}
					}
				})
			})
		})
	}
}
