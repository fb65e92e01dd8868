package tarn_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
)

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
