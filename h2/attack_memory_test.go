package h2

import (
	"context"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
)

// TestTinyData is CVE-2026-84304: a heap exhausted by DATA of one byte each. What
// the windows permit is held in a Chain, whose memory bound this test relies on.
func TestTinyData(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		window := 128 << 10
		if t.Kind != faultnet.TCP {
			window /= 4 // a shorter form
		}
		tinyData(t, window)
	})
}

func tinyData(t faultnet.OnKind, window int) {
	a, b := wireOver(t)
	pool, err := tarn.NewPool(tarn.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	h := &hoarder{got: make(chan int, 1), want: window}
	toServer(t.T, a, b, h, Config{Pool: pool, Window: window, MaxWindow: window}, func(t *testing.T, _ *Maker, _ *Conn, r *raw) {
		a.Write([]byte(Preface))
		r.fr.WriteSettings()
		go r.listen()
		r.request(1, More)
		one := make([]byte, 10)
		putFrame(one, frame{typ: frameData, length: 1, id: 1})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		burst := make([]byte, 0, 1<<16)
		for range 1 << 16 / 10 {
			burst = append(burst, one...)
		}
		for sent := 0; sent < window; sent += len(burst) / 10 {
			a.Write(burst[:min(len(burst), (window-sent)*10)])
		}
		<-h.got
		runtime.GC()
		runtime.ReadMemStats(&after)
		grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		if bound := int64(12 * window); grown > bound {
			t.Errorf("%d bytes of DATA hold %d bytes of heap, %d allowed", window, grown, bound)
		}
		t.Logf("%d bytes of one-byte DATA hold %d of heap, %d of the pool's", window, grown, pool.Stats().InUse)
	})
}

// hoarder keeps all DATA and consumes none.
type hoarder struct {
	data tarn.Chain
	got  chan int
	want int
}

func (h *hoarder) OnHeaders(*Stream, *Header, Ending) {}
func (h *hoarder) OnData(_ *Stream, b tarn.Buffer, _ Ending) {
	h.data.Append(b)
	if h.data.Len() >= h.want {
		h.got <- h.data.Len()
	}
}
func (h *hoarder) OnReset(s *Stream, _ error) { h.data.Free(); s.Release() }

// TestDeafPeer: a peer that sends requests and never reads cannot make the server
// queue more than its bound, nor hold more than was requested.
func TestDeafPeer(t *testing.T) { faultnet.EachSocket(t, deafPeer) }

func deafPeer(t faultnet.OnKind) {
	a, b := wireOver(t)
	pool, _ := tarn.NewPool(tarn.PoolConfig{})
	rec := newRecorder(t)
	body := make([]byte, 256<<10)
	rec.serve = func(s *Stream, k *call) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 64 {
			if s.Write(ctx, &Out{Data: pool.Copy(body)}) != nil {
				return
			}
		}
	}
	toServer(t.T, a, b, rec, Config{Pool: pool, MaxStreams: 10}, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
		a.Write([]byte(Preface))
		r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
		r.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
		// Bytes in the queue, in the batch that is being sent, and one body for each Write that waits.
		bounded(t, s, 16, 2*(batchLimit+minFill)+10*int64(len(body))+1<<20, func() {
			for i := range 10 {
				r.request(uint32(2*i+1), End)
			}
			full := func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return !s.ready.empty() && s.send.state == sending
			}
			for end := time.Now().Add(20 * time.Second); !full(); {
				if time.Now().After(end) {
					t.Error("the queue never filled")
					break
				}
				runtime.Gosched()
			}
		})
	})
	rec.calls.Wait()
}

// TestBigLengths: declared lengths allocate nothing.
func TestBigLengths(t *testing.T) {
	r, s, _ := rawServer(t, Config{}, nil)
	r.request(1, More)
	bounded(t, s, 5, 1<<20, func() {
		var h [frameHeaderLen]byte
		putFrame(h[:], frame{typ: frameData, length: 200_000, id: 1})
		r.nc.Write(h[:])
		r.nc.Write(make([]byte, 10))
	})
	r.nc.Close()
	<-s.Done()
	// And a frame longer than offered is refused outright.
	r, _, _ = rawServer(t, Config{}, nil)
	var h [frameHeaderLen]byte
	putFrame(h[:], frame{typ: frameData, length: maxMaxFrame, id: 1})
	r.nc.Write(h[:])
	r.wantGoAway(FrameSizeError)
}
