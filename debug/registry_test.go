package debug

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn"
)

func named(t *testing.T, name string) *tarn.Pool {
	t.Helper()
	p, err := tarn.NewPool(tarn.PoolConfig{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A pool that is added after the handler was made appears, one that is removed goes, and the others
// keep their names.
func TestRegistryIsLive(t *testing.T) {
	a, b, c := named(t, "same"), named(t, "same"), named(t, "same")
	var r Registry
	synctest.Test(t, func(t *testing.T) {
		h := HandlerOf(&r)
		if text := body(t, get(t, h, "/")); !strings.Contains(text, "There is no pool yet") {
			t.Errorf("without pools: %.200s", text)
		}
		for _, target := range []string{"/?format=json", "/?format=live", "/metrics"} {
			if res := get(t, h, target); res.StatusCode != 200 {
				t.Errorf("%s without pools: %d", target, res.StatusCode)
			}
		}
		if res := get(t, h, "/?format=histogram"); res.StatusCode != 404 {
			t.Errorf("a histogram without pools: %d", res.StatusCode)
		}
		names := func() string {
			<-time.After(time.Second)
			var list []string
			for _, p := range h.(*handler).watcher.Snapshot().Pools {
				list = append(list, p.Name)
			}
			return strings.Join(list, ", ")
		}
		r.Add(a, nil, b, a)
		if got := names(); got != "same, same 2" {
			t.Errorf("got %s", got)
		}
		r.Remove(a)
		r.Add(c)
		if got := names(); got != "same 2, same" {
			t.Errorf("after a removal: %s", got)
		}
	})
}

func TestOverviewPutsTroubleFirst(t *testing.T) {
	fine, tight := named(t, "fine"), (*tarn.Pool)(nil)
	tight, err := tarn.NewPool(tarn.PoolConfig{Name: "tight", Budget: 4096})
	if err != nil {
		t.Fatal(err)
	}
	held := tight.Get(8192)
	defer held.Free()
	text := body(t, get(t, Handler(fine, tight), "/"))
	first, second := strings.Index(text, `data-pool="tight"`), strings.Index(text, `data-pool="fine"`)
	if first < 0 || second < first {
		t.Errorf("tight at %d, fine at %d", first, second)
	}
	if !strings.Contains(text, "1 get over budget") {
		t.Error("the overview does not name the trouble")
	}
}

// TestTabsOfManyPools: with more pools than fit a line or two, a pool's page leads to the overview in place of to each of them.
func TestTabsOfManyPools(t *testing.T) {
	var pools []*tarn.Pool
	for n := 1; n <= 9; n++ {
		pools = append(pools, named(t, fmt.Sprint("p", n)))
		text := body(t, get(t, Handler(pools...), "/?pool=p1"))
		want := n + 1
		switch n {
		case 1:
			want = 0
		case 9:
			want = 2
		}
		if _, tabs, _ := strings.Cut(text, `id="tabs"`); strings.Count(strings.SplitN(tabs, "</nav>", 2)[0], "<a ") != want {
			t.Errorf("%d pools: not %d tabs", n, want)
		}
	}
}

func TestProfileIsServed(t *testing.T) {
	pool := busyPool(t, tarn.PoolConfig{Name: "watched", Check: tarn.CheckAll})
	h := Handler(pool.Pool)
	if r := get(t, h, "/?format=pprof&debug=1"); r.StatusCode != 200 || !strings.Contains(body(t, r), "debug.(*busy).traffic") {
		t.Errorf("as text: %d", r.StatusCode)
	}
	unwatched := Handler(named(t, "unwatched"))
	if text := body(t, get(t, unwatched, "/?format=pprof&debug=1")); text != "pool \"unwatched\": 0 watched buffers; checks: off\n" {
		t.Errorf("as text, of a pool without checks: %q", text)
	}
	if r := get(t, h, "/?format=pprof"); r.StatusCode != 200 || !strings.HasPrefix(body(t, r), "\x1f\x8b") {
		t.Errorf("for pprof: %d", r.StatusCode)
	}
	if r := get(t, h, "/?format=pprof&debug=x"); r.StatusCode != 400 {
		t.Errorf("a bad level: %d", r.StatusCode)
	}
}

func TestClassesAreAskedFor(t *testing.T) {
	h := Handler(busyPool(t, tarn.PoolConfig{Name: "one"}).Pool)
	if text := body(t, get(t, h, "/metrics?classes=on")); !strings.Contains(text, "tarn_pool_class_gets_total{pool=\"one\",class=") {
		t.Errorf("%.300s", text)
	}
	if text := body(t, get(t, h, "/metrics")); strings.Contains(text, "class=") || !strings.Contains(text, "tarn_pool_in_use_bytes") {
		t.Errorf("%.300s", text)
	}
}

// A request that reaches a loopback address under another site's name is refused.
func TestForeignHostIsRefused(t *testing.T) {
	h := Handler(named(t, "one"))
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6060}
	outside := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 6060}
	for _, c := range []struct {
		local  net.Addr
		host   string
		status int
	}{
		{loopback, "localhost:6060", 200},
		{loopback, "LOCALHOST.:6060", 200},
		{loopback, "app.localhost", 200},
		{loopback, "127.0.0.1:6060", 200},
		{loopback, "[::1]:6060", 200},
		{loopback, "evil.example:6060", 403},
		{loopback, "localhost.evil.example", 403},
		{loopback, "", 403},
		{outside, "service.internal:6060", 200},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = c.host
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.local))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%v under %q: %d, want %d", c.local, c.host, w.Code, c.status)
		}
	}
}

// asking is a source that looks at the set that it is added to.
type asking struct {
	scripted
	set   *Registry
	found int
}

func (a *asking) Observe() { a.found = len(a.set.Endpoints()) }

// TestObserverUsesRegistry: a source may use the set when it is told to count.
func TestObserverUsesRegistry(t *testing.T) {
	r := NewRegistry()
	a := &asking{set: r}
	r.AddEndpoints(a)
	if a.found != 1 {
		t.Errorf("%d sources in the set", a.found)
	}
}
