package h2

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// slowStarter is a server's handler whose goroutines begin when the test lets them.
type slowStarter struct {
	gate    chan struct{}
	waiting atomic.Int32
	served  atomic.Int32
}

func (h *slowStarter) OnHeaders(s *Stream, _ *Header, _ Ending) {
	s.Starting()
	h.waiting.Add(1)
	go func() {
		<-h.gate
		h.waiting.Add(-1)
		s.Started()
		h.served.Add(1)
		s.Write(nil, &Out{Block: testResponse, Ending: End})
		s.Release()
	}()
}
func (h *slowStarter) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (h *slowStarter) OnReset(*Stream, error)                    {}

// TestStartingBounded: a flood of complete requests does not start more goroutines
// than Limits.Starting before they run.
func TestStartingBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		h := &slowStarter{gate: make(chan struct{})}
		s, err := NewServer(b, h, Config{Pool: tarntest.NewPool(t), MaxStreams: 1000, Limits: Limits{Starting: 8}})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan struct{})
		go func() { defer close(run); s.Run() }()
		r := newRaw(t, a)
		go r.listen()
		a.Write([]byte(Preface))
		r.fr.WriteSettings()
		for i := range 100 {
			r.request(uint32(2*i+1), End)
		}
		synctest.Wait()
		if n := h.waiting.Load(); n != 8 {
			t.Errorf("%d goroutines wait to start, not 8", n)
		}
		close(h.gate)
		synctest.Wait()
		if n := h.served.Load(); n != 100 {
			t.Errorf("%d of 100 requests served", n)
		}
		a.Close()
		<-run
	})
}
