package debug

import (
	"net/http/httptest"
	"testing"

	"github.com/tarn-go/tarn"
)

// BenchmarkLook is what one request for the page costs the program: querying the pool and computing its
// classes, rendering the page, and the cached answers to other requests within half a second.
func BenchmarkLook(b *testing.B) {
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "bench", Check: tarn.CheckOff})
	if err != nil {
		b.Fatal(err)
	}
	var held []tarn.Buffer
	for i := range 100000 {
		buf := p.Get(100 + i*7919%100000)
		if i%100 == 0 {
			held = append(held, buf)
			continue
		}
		buf.Free()
	}
	defer func() {
		for _, buf := range held {
			buf.Free()
		}
	}()
	b.Run("stats", func(b *testing.B) {
		for b.Loop() {
			p.Stats()
		}
	})
	b.Run("solve", func(b *testing.B) {
		h := p.Histogram()
		for b.Loop() {
			advise(h)
		}
	})
	b.Run("draw", func(b *testing.B) {
		s, pg := Take(p), newPage()
		for b.Loop() {
			if _, err := pg.render(s, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		h := Handler(p)
		for b.Loop() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/?format=live", nil))
		}
	})
}
