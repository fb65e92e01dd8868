package tarn_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
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

// Observe is called once for the beginning and once for the end of each loan, with one number.
func TestObserve(t *testing.T) {
	var mu sync.Mutex
	begun, ended := map[uint64]int{}, map[uint64]bool{}
	p := newPool(t, tarn.PoolConfig{Observe: func(l tarn.Loan) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case l.Size > 0 && begun[l.Number] == 0:
			begun[l.Number] = l.Size
		case l.Size == 0 && begun[l.Number] > 0 && !ended[l.Number]:
			ended[l.Number] = true
		default:
			t.Errorf("Observe was called with %+v out of order", l)
		}
	}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				head, tail := p.Get(1 + i*100).Split(1)
				tail.Free()
				head.Free()
			}
		})
	}
	wg.Wait()
	p.Wrap([]byte("foreign"), nil).Free()
	p.Get(0).Free()
	if len(begun) != 4000 || len(ended) != 4000 || begun[1] == 0 || begun[4000] == 0 {
		t.Errorf("%d loans begun, %d ended", len(begun), len(ended))
	}
}

// Values print and log by their sizes; secrets stay where they are.
func TestFormats(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Name: "printed", Check: tarn.CheckOff})
	b := p.Copy([]byte("secret"))
	c := new(tarn.Chain)
	c.Append(b.Ref())
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	st := p.Stats()
	log.Info("logged", "buffer", b, "chain", c, "stats", st, "mark", tarn.AboveHigh, "pool", p, "zero", new(tarn.Pool))
	fmt.Fprintln(&out, b, tarn.Buffer{}, c, st, p, (*tarn.Pool)(nil), tarn.BelowLow, tarn.Watermark(9))
	for _, want := range []string{
		"buffer.len=6 buffer.pinned=64", "chain.len=6 chain.segments=1", "stats.pool=printed", "stats.in_use=64", `mark="above high"`,
		"pool.pool=printed pool.in_use=64", `zero="no Pool"`, "0 leaked no Pool",
		"Buffer of 6 bytes in a slab of 64", "no Buffer", `Chain of 6 bytes in 1 segment pool "printed": 1 buffer (64 bytes) in use, 0 bytes idle, 1 get (`,
		"below low", "watermark 9",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("bytes are printed:\n%s", out.String())
	}
	if n := out.Len(); n > 2000 {
		t.Errorf("%d bytes are printed:\n%s", n, out.String())
	}
	c.Free()
	b.Free()
	log.Info("freed", "buffer", b)
	if got := fmt.Sprint(b); got != "Buffer of 6 bytes in a slab of 64" {
		t.Errorf("a freed Buffer prints %q", got)
	}
}

// One of a kind is in the singular, any other number is not.
func TestFormatsOfOne(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Name: "p", Check: tarn.CheckOff})
	if got, want := p.Stats().String(), `pool "p": 0 buffers (0 bytes) in use, 0 bytes idle, 0 gets (0.0 % hits), 0 leaked`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b := p.Copy([]byte{1})
	if got, want := b.String(), "Buffer of 1 byte in a slab of 64"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var c tarn.Chain
	if got, want := c.String(), "Chain of 0 bytes in 0 segments"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.Append(b)
	if got, want := c.String(), "Chain of 1 byte in 1 segment"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.Free()
}

// Marks, policies and levels are words in JSON logs, too, and a Chain logs the same by value.
func TestFormatsInJSONLogs(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckOff})
	var c tarn.Chain
	c.Append(p.Copy([]byte("secret")))
	defer c.Free()
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("logged", "chain", c)
	for _, want := range []string{
		`"chain":{"len":6,"segments":1}`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %s: %s", want, out.String())
		}
	}
	if got := fmt.Sprint(c); got != "Chain of 6 bytes in 1 segment" {
		t.Errorf("a Chain prints %q by value", got)
	}
}

// Zero values that are not ready say what makes them so.
func TestZeroValuesSayWhatIsMissing(t *testing.T) {
	var p tarn.Pool
	var a tarn.Arena
	for name, c := range map[string]struct {
		f    func()
		want string
	}{
		"Pool.Get":     {func() { p.Get(1) }, "NewPool"},
		"Pool.Wrap":    {func() { p.Wrap(nil, nil) }, "NewPool"},
		"Pool.Acquire": {func() { p.Acquire(t.Context(), 1) }, "NewPool"},
		"Pool.Stats":   {func() { p.Stats() }, "NewPool"},
		"Pool.Classes": {func() { p.Classes() }, "NewPool"},
		"Arena.Get":    {func() { a.Get(1) }, "NewArena"},
	} {
		if text := fmt.Sprint(caught(c.f)); !strings.Contains(text, c.want) {
			t.Errorf("%s panics with %q, which does not name %s", name, text, c.want)
		}
	}
	a.Free()
}

// A misspelt TARN_CHECK is reported on standard error, once; the program continues.
func TestMisspeltCheckIsNamed(t *testing.T) {
	if os.Getenv("TARN_TEST_CHILD") != "" {
		newPool(t, tarn.PoolConfig{})
		newPool(t, tarn.PoolConfig{})
		return
	}
	for value, warned := range map[string]bool{
		"samplde": true, "sampled:x": true, "sampled:-1": true, "all:3": true, "sampled": false, "sampled:3": false, "off": false, "all": false, "": false,
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMisspeltCheckIsNamed$")
		cmd.Env = append(os.Environ(), "TARN_TEST_CHILD=1", "TARN_CHECK="+value)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if out, err := cmd.Output(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want := 0
		if warned {
			want = 1
		}
		if n := strings.Count(stderr.String(), "TARN_CHECK"); n != want || warned && !strings.Contains(stderr.String(), value) {
			t.Errorf("TARN_CHECK=%s: %d warnings, want %d:\n%s", value, n, want, stderr.String())
		}
	}
}
