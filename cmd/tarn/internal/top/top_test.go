package top

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/debug"
)

// service runs a handler over a pool with some traffic behind it.
func service(t *testing.T) (url string, pool *tarn.Pool) {
	t.Helper()
	p, err := tarn.NewPool(tarn.PoolConfig{Name: "svc\x1b[2J", Classes: []int{4096, 65536}, Check: tarn.CheckAll})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		p.Get(3000 + i%9000).Free()
	}
	p.Get(100000).Free()
	held := p.Get(5000)
	t.Cleanup(held.Free)
	server := httptest.NewServer(debug.Handler(p))
	t.Cleanup(server.Close)
	return server.URL + "/debug/tarn/", p
}

func top(ctx context.Context, args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = Run(ctx, args, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return status, o.String(), e.String()
}

func TestOnce(t *testing.T) {
	url, _ := service(t)
	status, out, errs := top(t.Context(), "-once", url)
	if status != cli.OK || errs != "" {
		t.Fatalf("%d %s", status, errs)
	}
	for _, want := range []string{"tarn top", "in use ", " gets, ", "waste ", "64 KiB", "larger", "held by", "top.service"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.ContainsRune(out, '\x1b') {
		t.Error("an escape in plain output")
	}
}

// TestPlain: when output is not a terminal, it prints block after block until it is interrupted, and ends with status 0.
func TestPlain(t *testing.T) {
	url, _ := service(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan string, 100)
	done := make(chan int)
	go func() {
		done <- Run(ctx, []string{url, "-every", "500ms", "-pool", "svc\x1b[2J"}, cli.Streams{In: strings.NewReader(""), Out: writer(seen), Err: writer(seen)})
	}()
	for range 2 {
		if text := <-seen; !strings.Contains(text, "in use") {
			t.Errorf("got %q", text)
		}
	}
	cancel()
	if status := <-done; status != cli.OK {
		t.Errorf("interrupted: status %d", status)
	}
}

type writer chan string

func (w writer) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

func TestErrors(t *testing.T) {
	url, _ := service(t)
	html := httptest.NewServer(http.NotFoundHandler())
	defer html.Close()
	for _, tc := range []struct {
		args   []string
		status int
		says   string
	}{
		{nil, cli.Usage, "no address"},
		{[]string{"-nonsense"}, cli.Usage, "-nonsense"},
		{[]string{"a", "b"}, cli.Usage, "one address"},
		{[]string{"file.json"}, cli.Usage, "not an http"},
		{[]string{"-sort", "colour", url}, cli.Usage, "size, rate and held"},
		{[]string{"-header", "nonsense", url}, cli.Usage, "Name: value"},
		{[]string{"-every", "1ms", url}, cli.Usage, "-every"},
		{[]string{"-once", "http://127.0.0.1:1"}, cli.Failed, "127.0.0.1:1"},
		{[]string{"-once", html.URL}, cli.Failed, "404"},
		{[]string{"-once", "-pool", "none", url}, cli.Failed, `no pool "none"`},
	} {
		status, out, errs := top(t.Context(), tc.args...)
		if status != tc.status || !strings.Contains(errs, tc.says) || strings.Count(errs, "\n") != 1 || out != "" {
			t.Errorf("%q: %d %q %q", tc.args, status, out, errs)
		}
	}
}

// TestDraw: rates are computed from two snapshots, and what is drawn for a terminal fits it.
func TestDraw(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	pool := debug.Pool{Name: "p", Gets: 1000, Hits: 900, Misses: 100, InUse: 6 << 20, Idle: 2 << 20, Peak: 9 << 20, Pinned: 1 << 20, Leaked: 3,
		Classes: []debug.Class{{Size: 4096, Gets: 1000, Hits: 900}, {Size: 8192}, {}}}
	before := &debug.Snapshot{Time: at, Pools: []debug.Pool{pool}}
	pool.Gets, pool.Hits, pool.Misses = 1500, 1390, 110
	pool.Classes = []debug.Class{{Size: 4096, Gets: 1500, Hits: 1390}, {Size: 8192}, {}}
	now := &debug.Snapshot{Time: at.Add(time.Second), Pools: []debug.Pool{pool}}
	v := view{before: before, now: now, width: 100, history: map[string][]float64{}}
	v.remember()
	text := draw(v)
	if !strings.Contains(text, "500 gets/s, 98% hits, 10 allocated/s") || !strings.Contains(text, "█") || !strings.Contains(text, "3 leaked") {
		t.Errorf("got\n%s", text)
	}
}

// Figures that are estimated from samples have a mark, exact ones none.
func TestSampledFiguresAreMarked(t *testing.T) {
	pool := debug.Pool{Name: "p", Gets: 10, InUse: 6 << 20, Pinned: 1 << 20, Check: "sampled", Estimated: true, Sizing: &debug.Sizing{Waste: 0.25, Keep: true},
		Outstanding: &debug.Outstanding{Groups: []debug.Group{{Count: 2048, Pinned: 5 << 20, Place: "main.f"}}}}
	sampled := draw(view{now: &debug.Snapshot{Pools: []debug.Pool{pool}}})
	for _, want := range []string{"in use 6 MiB", "≈ 1 MiB of it unseen", "waste ≈ 25%", "≈ 5 MiB", "≈ 2.0k"} {
		if !strings.Contains(sampled, want) {
			t.Errorf("no %q in\n%s", want, sampled)
		}
	}
	pool.Check, pool.Estimated, pool.Sizing = "all", false, nil
	if exact := draw(view{now: &debug.Snapshot{Pools: []debug.Pool{pool}}}); strings.Contains(exact, "≈") {
		t.Errorf("a mark in\n%s", exact)
	}
}

func TestSpark(t *testing.T) {
	if got := spark([]float64{0, 1, 2, 4, 8}); got != "▁▂▃▅█" {
		t.Errorf("got %s", got)
	}
	if got := spark([]float64{0, 0}); got != "▁▁" {
		t.Errorf("got %s", got)
	}
	if got := cut("abcdef", 4); got != "abc…" {
		t.Errorf("got %s", got)
	}
}

// No line is longer than the terminal is wide, whatever the names of pools and functions.
func TestNarrow(t *testing.T) {
	url, _ := service(t)
	s, err := look(t.Context(), options{url: url})
	if err != nil {
		t.Fatal(err)
	}
	long := debug.Pool{Name: strings.Repeat("name ", 30), Gets: 2e9, Leaked: 1e9, Refused: 1e9, OverBudget: 1e9, Classes: s.Pools[0].Classes, Sizing: &debug.Sizing{Waste: 0.255, BestWaste: 0.125},
		Outstanding: &debug.Outstanding{Groups: []debug.Group{{Count: 1e9, Pinned: 1 << 50, Oldest: 99999, Place: strings.Repeat("place", 30)}}}}
	s.Pools = append(s.Pools, long)
	s.Program = strings.Repeat("program ", 20)
	for _, width := range []int{20, 30, 40, 46, 54, 60, 80, 120} {
		for line := range strings.Lines(draw(view{now: s, width: width})) {
			if n := lipgloss.Width(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("at %d columns a line has %d: %s", width, n, line)
			}
		}
	}
}

// Of a holder's line that is too long the function's name is shortened; its line and how old its buffers are stay.
func TestHolderOfALongName(t *testing.T) {
	for place, want := range map[string]string{
		strings.Repeat("x", 100) + " main.go:12":                "xx… main.go:12, oldest 1m30s\n",
		"main.run " + strings.Repeat("file", 100) + ".go:12345": "filefilefile.go:12345, oldest 1m30s\n",
		"main.run main.go:12":                                   "  main.run main.go:12, oldest 1m30s\n",
	} {
		pool := debug.Pool{Name: "p", Outstanding: &debug.Outstanding{Groups: []debug.Group{{Count: 1, Pinned: 4096, Oldest: 90, Place: place}}}}
		if text := draw(view{now: &debug.Snapshot{Pools: []debug.Pool{pool}}, width: 60}); !strings.Contains(text, want) {
			t.Errorf("got\n%s", text)
		}
	}
}

func TestOrder(t *testing.T) {
	rows := []row{{debug.Class{InUse: 1}, 0, 5}, {debug.Class{Idle: 9}, 4096, 1}, {debug.Class{InUse: 1}, 8192, 9}}
	for o, want := range map[order]string{bySize: "4096 8192 0 ", byRate: "8192 0 4096 ", byHeld: "4096 8192 0 "} {
		o.sort(rows)
		got := ""
		for _, r := range rows {
			got += fmt.Sprint(r.Size, " ")
		}
		if got != want {
			t.Errorf("by %v: %s", o, got)
		}
	}
}

// The headers that the flags and the environment name are sent with the request.
func TestHeader(t *testing.T) {
	url, _ := service(t)
	inner := http.DefaultClient
	seen := make(chan http.Header, 2)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Clone()
		header.Set("Host", r.Host)
		seen <- header
		resp, err := inner.Get(url + "?" + r.URL.RawQuery)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		io.Copy(w, resp.Body)
	}))
	defer proxy.Close()
	if status, _, errs := top(t.Context(), "-once", "-token", "secret", "-header", "X-Tenant: a", "-header", "host: service.internal", proxy.URL); status != cli.OK {
		t.Fatal(errs)
	}
	if h := <-seen; h.Get("Authorization") != "Bearer secret" || h.Get("X-Tenant") != "a" || h.Get("Host") != "service.internal" {
		t.Errorf("sent %v", h)
	}
	t.Setenv("TARN_TOKEN", "other")
	if status, _, errs := top(t.Context(), "-once", proxy.URL); status != cli.OK {
		t.Fatal(errs)
	}
	if h := <-seen; h.Get("Authorization") != "Bearer other" {
		t.Errorf("sent %v", h)
	}
}
