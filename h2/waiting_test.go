package h2

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

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

// TestIncremental: incremental streams share the connection's window in turns of 128 KiB.
func TestIncremental(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4 * turnBytes
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
		for range 3 * size / turnBytes {
			r.fr.WriteWindowUpdate(0, turnBytes)
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
			if most-least > turnBytes {
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
