package tarn_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
)

func TestRecorder(t *testing.T) {
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "r"})
	if err != nil {
		t.Fatal(err)
	}
	const n = 200_000
	for range n {
		p.Get(1000).Free()
	}
	h := p.Histogram()
	if h.Name != "r" || h.Every != tarn.RecordEvery || len(h.Classes) == 0 || h.Peak == 0 {
		t.Errorf("%+v", h)
	}
	total := uint64(0)
	for _, s := range h.Sizes {
		if s.Size >= 1000 && s.Size < 1032 {
			total += s.Count
		}
	}
	if total < n/2 || total > n*2 {
		t.Errorf("%d Gets recorded as about %d", n, total)
	}
	if len(h.Lifetimes) == 0 || h.Lifetimes[0].Cycles != 0 {
		t.Errorf("lifetimes: %+v", h.Lifetimes)
	}
	off, err := tarn.NewPool(tarn.PoolConfig{Record: tarn.RecordOff})
	if err != nil {
		t.Fatal(err)
	}
	off.Get(10).Free()
	if h := off.Histogram(); len(h.Sizes) != 0 {
		t.Errorf("RecordOff recorded %v", h.Sizes)
	}
}

func TestReportsToStandardErrorThinOut(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func(was *os.File) { os.Stderr = was }(os.Stderr)
	os.Stderr = w
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "told"})
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		p.Refuse(make([]byte, 8))
	}
	w.Close()
	out, err := io.ReadAll(r)
	if n := strings.Count(string(out), "\n"); err != nil || n != 10 || !strings.Contains(string(out), "512 of these") {
		t.Errorf("%d lines for 1000 refusals (%v):\n%s", n, err, out)
	}
}
