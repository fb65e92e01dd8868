package tarn_test

import (
	"bufio"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

//go:noinline
func firstHolder(b tarn.Buffer) tarn.Buffer { return b.Ref() }

//go:noinline
func secondHolder(b tarn.Buffer) tarn.Buffer { return b.Slice(0, 10) }

// A leak report names the line that made the reference that is out, not the one that made the slab's first.
func TestHoldersNameWhoHolds(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	var held []tarn.Buffer
	for range 500 {
		b := acquiredHere(p)
		held = append(held, firstHolder(b))
		b.Free()
	}
	b := acquiredHere(p)
	for range 2 {
		held = append(held, secondHolder(b))
	}
	b.Free()
	list := tarn.Holders(p.Outstanding())
	if len(list) != 2 {
		t.Fatalf("%d holders: %v", len(list), list)
	}
	if h := list[0]; h.References != 500 || h.Bytes != 500*100 || h.Pinned != 500*128 || !contains(h.String(), "firstHolder") || contains(h.String(), "acquiredHere") {
		t.Errorf("first: %v", h)
	}
	if h := list[1]; h.References != 2 || h.Bytes != 2*10 || h.Pinned != 128 || !contains(h.Stack.Title(), "secondHolder outstanding_test.go:") {
		t.Errorf("second, %s: %v", h.Stack.Title(), h)
	}
	for _, b := range held {
		b.Free()
	}
	if list := tarn.Holders(p.Outstanding()); len(list) != 0 {
		t.Errorf("%d holders of nothing", len(list))
	}
}

// With CheckSampled each tracked reference also stands for those that were not sampled.
func TestHoldersScaleSamples(t *testing.T) {
	const n, every = 20_000, 10
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckSampled, CheckEvery: every})
	var held []tarn.Buffer
	for range n {
		held = append(held, acquiredHere(p))
	}
	list := tarn.Holders(p.Outstanding())
	if len(list) != 1 || list[0].References < n/2 || list[0].References > n*2 || list[0].Pinned != int64(list[0].References)*128 {
		t.Errorf("%d holders: %+v", len(list), list)
	}
	for _, b := range held {
		b.Free()
	}
}

// getter is an io.Reader whose Read calls Get, so that frames of the standard library lie between.
type getter struct {
	p *tarn.Pool
	b tarn.Buffer
}

func (g *getter) Read(p []byte) (int, error) {
	g.b = g.p.Get(10)
	return len(p), nil
}

func TestTitles(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	w := tarn.NewWriter(p)
	w.WriteString("some bytes")
	title := p.Outstanding()[0].Stack.Title()
	if !strings.HasPrefix(title, "tarn_test.TestTitles outstanding_test.go:") {
		t.Errorf("title %q of what a Writer took", title)
	}
	w.Free()
	g := &getter{p: p}
	bufio.NewReader(g).ReadByte()
	if title := g.p.Outstanding()[0].Stack.Title(); !contains(title, "(*getter).Read") {
		t.Errorf("title %q of what a reader took", title)
	}
	g.b.Free()
	if title := tarn.Stack(nil).Title(); title != "" {
		t.Errorf("title %q of no stack", title)
	}
}
