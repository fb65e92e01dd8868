package debug

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/plot"
	"github.com/tarn-go/tarn/sizing"
)

// busy is a pool with traffic on it; half of one buffer in ten stays out until the test ends.
type busy struct {
	*tarn.Pool
	held []tarn.Buffer
	n    int
}

// busyPool makes a pool with a ladder of powers of two, so that there is waste to show.
func busyPool(t *testing.T, config tarn.PoolConfig) *busy {
	t.Helper()
	for c := 256; c <= 1<<20; c *= 2 {
		config.Classes = append(config.Classes, c)
	}
	p, err := tarn.NewPool(config)
	if err != nil {
		t.Fatal(err)
	}
	b := &busy{Pool: p}
	t.Cleanup(func() {
		for _, held := range b.held {
			held.Free()
		}
	})
	gets := 20000 // one in 64 or more is recorded
	if config.Check == tarn.CheckAll {
		gets = 4000 // each with its stacks
	}
	b.traffic(t, gets)
	return b
}

func (b *busy) traffic(t *testing.T, gets int) {
	t.Helper()
	for range gets {
		b.n++
		size := 16<<10 + 40
		if b.n%3 == 0 {
			size = 300 + b.n*7919%70000
		}
		buf := b.Get(size)
		if b.n%200 == 0 && len(b.held) < 100 {
			b.held = append(b.held, buf)
		} else {
			buf.Free()
		}
	}
}

func get(t *testing.T, h http.Handler, target string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestHandlerFormats(t *testing.T) {
	h := Handler(busyPool(t, tarn.PoolConfig{Name: "one"}).Pool, nil, busyPool(t, tarn.PoolConfig{}).Pool, busyPool(t, tarn.PoolConfig{Name: "one"}).Pool)
	for _, tc := range []struct {
		target, contentType, contains string
		status                        int
	}{
		{"/", "text/html", "<h1 id=\"h-all\">All pools</h1>", 200},
		{"/?pool=one", "text/html", "<h1 id=\"h-mem\">one</h1>", 200},
		{"/?pool=one+2", "text/html", "<h1 id=\"h-mem\">one 2</h1>", 200},
		{"/?pool=pool+3", "text/html", "<h1 id=\"h-mem\">pool 3</h1>", 200},
		{"/any/path/json", "application/json", `"name":"one 2"`, 200},
		{"/?format=json", "application/json", `"histogram":{`, 200},
		{"/?format=live", "application/json", `"in_use_bytes":`, 200},
		{"/?format=histogram", "application/json", `"sizes":[`, 200},
		{"/?format=prometheus", "text/plain; version=0.0.4", "tarn_pool_in_use_bytes{pool=\"one\"} ", 200},
		{"/metrics", "text/plain; version=0.0.4", "tarn_pool_gets_total{pool=\"one\"} ", 200},
		{"/?format=xml", "text/plain", "no such format", 404},
		{"/?format=calls", "text/plain", "no such format", 404}, // what is chosen by other parts of the query is no format
		{"/?format=overview", "text/plain", "no such format", 404},
		{"/?format=prometheus+of+pools", "text/plain", "no such format", 404},
		{"/?pool=none", "text/plain", "no such pool", 404},
	} {
		r := get(t, h, tc.target)
		text := body(t, r)
		if r.StatusCode != tc.status || !strings.HasPrefix(r.Header.Get("Content-Type"), tc.contentType) || !strings.Contains(text, tc.contains) {
			t.Errorf("%s: %d %s, without %q: %.300s", tc.target, r.StatusCode, r.Header.Get("Content-Type"), tc.contains, text)
		}
		if p := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; script-src 'sha256-") || strings.Contains(p, "unsafe") {
			t.Errorf("%s: policy %q", tc.target, p)
		}
	}
	if text := body(t, get(t, h, "/?format=live")); strings.Contains(text, "histogram") {
		t.Error("the live form carries the histogram")
	}
}

// Where checks are sampled, what a place holds is marked as an estimate, its bytes as well as its count.
func TestSampledHoldersAreMarked(t *testing.T) {
	for _, level := range []tarn.CheckLevel{tarn.CheckAll, tarn.CheckSampled} {
		pool, err := tarn.NewPool(tarn.PoolConfig{Name: "held", Check: level, CheckEvery: 1})
		if err != nil {
			t.Fatal(err)
		}
		b := pool.Get(1000)
		text := body(t, get(t, Handler(pool), "/?pool=held"))
		if marked := strings.Contains(text, `<span class="q">≈ 1000 B <em>holding ≈ 1 KiB</em></span>`); marked != (level == tarn.CheckSampled) {
			t.Errorf("%v: marked %v", level, marked)
		}
		b.Free()
	}
}

// The share of hits since the start is said with the total that it is of, and the present one apart from both.
func TestHitRateSaysOfWhat(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "hits"})
	if err != nil {
		t.Fatal(err)
	}
	if text := body(t, get(t, Handler(pool), "/?pool=hits")); !strings.Contains(text, "no gets yet") {
		t.Error("before the first get the page does not say so")
	}
	first, second := pool.Get(1000), pool.Get(1000)
	first.Free()
	second.Free()
	for range 998 {
		pool.Get(1000).Free()
	}
	hits, misses := pool.Stats().Hits, pool.Stats().Misses
	want := fmt.Sprintf(`<b id="hit">–</b> <span id="hit-sub" data-live>now; %s of 1k gets so far, %d allocated</span>`, plot.Percent(float64(hits)/1000), misses)
	if text := body(t, get(t, Handler(pool), "/?pool=hits")); !strings.Contains(text, want) {
		t.Errorf("lacks %s", want)
	}
}

func TestHandlerOnlyReads(t *testing.T) {
	h := Handler(busyPool(t, tarn.PoolConfig{}).Pool)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// TestHandlerEmpty: an unused pool, no pool at all, and a pool that records nothing all have a page.
func TestHandlerEmpty(t *testing.T) {
	quiet, err := tarn.NewPool(tarn.PoolConfig{Record: tarn.RecordOff})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []http.Handler{Handler(quiet), Handler()} {
		for _, target := range []string{"/", "/?format=json", "/?format=prometheus", "/?format=histogram"} {
			if r := get(t, h, target); r.StatusCode != 200 {
				t.Errorf("%s: %d %s", target, r.StatusCode, body(t, r))
			}
		}
	}
	if text := body(t, get(t, Handler(quiet), "/")); !strings.Contains(text, "Nothing was recorded yet") {
		t.Error("the page does not say that nothing was recorded")
	}
}

func TestHistogramReadBack(t *testing.T) {
	h := Handler(busyPool(t, tarn.PoolConfig{Name: "read"}).Pool)
	got, err := sizing.Read(get(t, h, "/?format=histogram").Body)
	if err != nil || got.Name != "read" || got.Peak == 0 || len(got.Classes) != 13 {
		t.Errorf("%+v, %v", got, err)
	}
	var s Snapshot
	if err := json.NewDecoder(get(t, h, "/json").Body).Decode(&s); err != nil || len(s.Pools) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	p := s.Pools[0]
	if p.Gets != p.Hits+p.Misses || p.Pinned <= 0 || p.Pinned > p.InUse || p.Sizing.BestWaste >= p.Sizing.Waste || len(p.Sizing.Ladder) == 0 {
		t.Errorf("%+v %+v", p, p.Sizing)
	}
}

// TestPrometheusText checks each line against the exposition format.
func TestPrometheusText(t *testing.T) {
	h := Handler(busyPool(t, tarn.PoolConfig{Name: "a\"b\\c\nd"}).Pool)
	line := regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+\{[a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="[^"]*")?\} (\d[0-9.e+]*|\+Inf))$`)
	typed := map[string]bool{}
	for _, l := range strings.Split(strings.TrimSuffix(body(t, get(t, h, "/metrics")), "\n"), "\n") {
		if !line.MatchString(l) {
			t.Errorf("not in the format: %s", l)
		}
		if name, ok := strings.CutPrefix(l, "# TYPE "); ok {
			name, kind, _ := strings.Cut(name, " ")
			if typed[name] {
				t.Errorf("%s has two types", name)
			}
			typed[name] = true
			if strings.HasSuffix(name, "_total") != (kind == "counter") {
				t.Errorf("%s is a %s", name, kind)
			}
		}
	}
	if len(typed) < 15 {
		t.Errorf("only %d metrics", len(typed))
	}
}

func TestOutstandingGroups(t *testing.T) {
	pool := busyPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	s := Take(pool.Pool)
	o := s.Pools[0].Outstanding
	if o == nil || o.Watched != len(pool.held) || len(o.Groups) != 1 {
		t.Fatalf("%+v", o)
	}
	g := o.Groups[0]
	if g.Count != len(pool.held) || g.Pinned <= g.Bytes || !strings.Contains(g.Title(), "debug.(*busy).traffic") {
		t.Errorf("%+v", g)
	}
	if s := Take(busyPool(t, tarn.PoolConfig{Check: tarn.CheckOff}).Pool); s.Pools[0].Outstanding != nil {
		t.Error("outstanding buffers without checks")
	}
}

// TestRecommendationHolds: the pool accepts the classes that the page proposes, and the waste falls to what it says.
func TestRecommendationHolds(t *testing.T) {
	pool := busyPool(t, tarn.PoolConfig{})
	before := Take(pool.Pool).Pools[0].Sizing
	if err := pool.SetClasses(before.Ladder); err != nil {
		t.Fatal(err)
	}
	after := Take(pool.Pool).Pools[0].Sizing
	if after.Waste != before.BestWaste || after.Waste > before.Waste/2 || !after.Keep {
		t.Errorf("waste %.3f, promised %.3f; now %.3f, keep %v", before.Waste, before.BestWaste, after.Waste, after.Keep)
	}
}

// TestPinnedUnseen: a small view of a large slab shows as what it pins.
func TestPinnedUnseen(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Check: tarn.CheckAll})
	if err != nil {
		t.Fatal(err)
	}
	head, tail := pool.Get(64 << 10).Split(100)
	tail.Free()
	p := Take(pool).Pools[0]
	if p.InUse != 64<<10 || p.Pinned != 64<<10-100 || p.Outstanding.Groups[0].Bytes != 100 {
		t.Errorf("in use %d, pinned unseen %d, %+v", p.InUse, p.Pinned, p.Outstanding.Groups[0])
	}
	head.Free()
	if p := Take(pool).Pools[0]; p.Pinned != 0 || len(p.Outstanding.Groups) != 0 {
		t.Errorf("pinned unseen %d after the free, %+v", p.Pinned, p.Outstanding)
	}
}

//go:noinline
func leakHere(p *tarn.Pool) { p.Get(3000) } //tarn:allow leak its report is what is tested

// TestPlacesOfMisuse: JSON and page name the lines that leaked or freed twice.
func TestPlacesOfMisuse(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "p", Check: tarn.CheckSampled, CheckEvery: 1, Report: func(tarn.Misuse) {}})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		leakHere(pool)
	}
	for pool.Stats().Leaked < 5 {
		runtime.GC()
	}
	func() {
		defer func() { _ = recover() }()
		b := pool.Get(10)
		b.Free()
		b.Free()
	}()
	p := Take(pool).Pools[0]
	if p.Misused != 1 || len(p.Misuses) != 2 {
		t.Fatalf("%d misused, %v", p.Misused, p.Misuses)
	}
	if m := p.Misuses[0]; m.Kind != "leak" || m.Count != 5 || !m.Estimated || !strings.Contains(m.Acquired, "leakHere handler_test.go:") {
		t.Errorf("the leak is %+v", m)
	}
	if m := p.Misuses[1]; m.Kind != "double free" || m.Count != 1 || !strings.Contains(m.Freed, "TestPlacesOfMisuse") {
		t.Errorf("the double free is %+v", m)
	}
	text := body(t, get(t, Handler(pool), "/?pool=p"))
	if !strings.Contains(text, "<li class=\"on\">≈ 5 leak: acquired by debug.leakHere handler_test.go:") {
		t.Errorf("the page does not name the leak's line")
	}
}

// TestTroubleIsOnlyWhatIsWrong: a healthy pool gives slabs up, which the page tells with the idle ones and not as trouble.
func TestTroubleIsOnlyWhatIsWrong(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "p", Retain: -1})
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(pool)
	if text := body(t, get(t, h, "/?pool=p")); strings.Contains(text, "given up so far") {
		t.Error("slabs of a new pool are given up")
	}
	pool.Get(100).Free()
	if n := pool.Stats().Dropped; n != 1 {
		t.Fatalf("%d slabs were given up", n)
	}
	text := body(t, get(t, Handler(pool), "/?pool=p"))
	_, after, _ := strings.Cut(text, `id="trouble"`)
	card, _, _ := strings.Cut(after, "</div>")
	if got := regexp.MustCompile(`<b>(\w+)</b> [a-z ]+</li>`).FindAllStringSubmatch(card, -1); len(got) != 5 || strings.Contains(card, "<b>1</b>") {
		t.Errorf("the trouble of a healthy pool: %q in %s", got, card)
	}
	if !strings.Contains(text, "1 slab given up so far") {
		t.Error("the page does not say how many slabs were given up")
	}
}

// TestLargerWasteIsNotGood: the classes recommended may pool more and waste more; their waste is not shown as good then.
func TestLargerWasteIsNotGood(t *testing.T) {
	const good = `<b class="good">`
	for _, tc := range []struct {
		best float64
		good bool
	}{{0.05, true}, {0.6, false}} {
		s := NewWatcher(NewRegistry(busyPool(t, tarn.PoolConfig{Name: "p"}).Pool)).Snapshot()
		changed := *s.Pools[0].Sizing
		changed.Keep, changed.Waste, changed.BestWaste = false, 0.2, tc.best
		s.Pools[0].Sizing = &changed
		text, err := newPage().render(s, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "The classes below waste") || strings.Contains(string(text), good) != tc.good {
			t.Errorf("20%% now, %.0f%% recommended: shown as good: %v", 100*tc.best, !tc.good)
		}
	}
}

// TestCache: many requests at once get one snapshot made for all of them.
func TestCache(t *testing.T) {
	pool := busyPool(t, tarn.PoolConfig{})
	synctest.Test(t, func(t *testing.T) {
		c := NewWatcher(NewRegistry(pool.Pool))
		first := c.Snapshot()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if c.Snapshot() != first {
					t.Error("a second snapshot was made within half a second")
				}
			})
		}
		wg.Wait()
		<-time.After(statsAge)
		second := c.Snapshot()
		if second == first {
			t.Error("no new snapshot was made when the first had expired")
		}
		if second.Pools[0].Sizing != first.Pools[0].Sizing {
			t.Error("the ladder was solved again at once")
		}
		<-time.After(sizingAge)
		if c.Snapshot().Pools[0].Sizing == first.Pools[0].Sizing {
			t.Error("the ladder is never solved again")
		}
	})
}

// TestBoundedMemory: the handler keeps the answers to its newest snapshot and no others.
func TestBoundedMemory(t *testing.T) {
	h := Handler(busyPool(t, tarn.PoolConfig{}).Pool, busyPool(t, tarn.PoolConfig{}).Pool).(*handler)
	for range 20 {
		for _, target := range []string{"/", "/?pool=pool+2", "/json", "/metrics", "/?format=live", "/?format=nonsense", "/?pool=nobody", "/?format=page&x=1"} {
			get(t, h, target)
		}
	}
	if len(h.answers) > 6 {
		t.Errorf("%d answers kept", len(h.answers))
	}
}
