package debug

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"reflect"
	"regexp"
	"runtime"
	rtdebug "runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// counted is an endpoint whose calls are those of a time that passes.
type counted struct{ since time.Time }

func (c *counted) Endpoint() endpoint.State {
	return endpoint.State{Kind: "server", Name: "x", Calls: uint64(time.Since(c.since).Seconds())}
}

// The handler keeps an hour from when it is made, without a request, of each pool, server and client that is there.
func TestHistory(t *testing.T) {
	p := named(t, "one")
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(p)
		r.AddEndpoints(&counted{time.Now()})
		h := HandlerOf(r)
		var past Past
		ask := func(target string) {
			t.Helper()
			past = Past{}
			if err := json.Unmarshal([]byte(body(t, get(t, h, target))), &past); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(historyStep*10 + time.Second)
		later := named(t, "later")
		r.Add(later)
		ask("/?format=history&pool=one")
		if len(past.Pool) != 10 || past.Pool[1].Time-past.Pool[0].Time != historyStep.Milliseconds() {
			t.Errorf("after ten steps: %+v", past)
		}
		<-time.After(2 * time.Hour)
		ask("/?format=history&view=calls&endpoint=server+x")
		if n := len(past.Calls); n != historyLength || past.Calls[n-1].Calls-past.Calls[0].Calls != 3590 {
			t.Errorf("after two hours: %d points, %+v", n, past.Calls[:2])
		}
		ask("/?format=history")
		if len(past.Pool) != historyLength || past.Name != "one" {
			t.Errorf("of the first pool: %d points of %q", len(past.Pool), past.Name)
		}
		r.Remove(later)
		<-time.After(2 * historyStep)
		r.Add(later)
		ask("/?format=history&pool=later")
		if len(past.Pool) != 0 {
			t.Errorf("a pool that was removed: %d points", len(past.Pool))
		}
		if r := get(t, h, "/?format=history&pool=nobody"); r.StatusCode != 404 {
			t.Errorf("no such pool: %d", r.StatusCode)
		}
		runtime.KeepAlive(h)
	})
}

// After an hour the memory of the history does not grow any more.
func TestHistoryIsBounded(t *testing.T) {
	p := named(t, "one")
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(p)
		r.AddEndpoints(&counted{time.Now()})
		h := HandlerOf(r).(*handler)
		memory := func() (bytes uintptr) {
			h.history.mu.Lock()
			defer h.history.mu.Unlock()
			for _, r := range h.history.pools {
				bytes += uintptr(cap(r.points)) * reflect.TypeFor[PoolPoint]().Size()
			}
			for _, r := range h.history.calls {
				bytes += uintptr(cap(r.points)) * reflect.TypeFor[CallPoint]().Size()
			}
			return bytes
		}
		<-time.After(time.Hour + time.Second)
		hour := memory()
		if hour > 2*15<<10 {
			t.Errorf("an hour of a pool and a server takes %d bytes", hour)
		}
		<-time.After(24 * time.Hour)
		if day := memory(); day != hour {
			t.Errorf("%d bytes after an hour, %d after a day", hour, day)
		}
		runtime.KeepAlive(h)
	})
}

// The timer does not keep a handler that nothing refers to.
func TestHistoryEnds(t *testing.T) {
	of := weak.Make(HandlerOf(NewRegistry(named(t, "one"))).(*handler).history)
	runtime.GC()
	if of.Value() != nil {
		t.Error("the history is still there")
	}
}

func TestGzip(t *testing.T) {
	h := Handler(named(t, "one"))
	for accept, zipped := range map[string]bool{"": false, "gzip": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "identity": false, "*": true, "GZIP": true,
		"*;q=0, gzip": true, "gzip;q=0, *": false} {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != zipped || w.Header().Get("Vary") != "Accept-Encoding" || w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
			t.Errorf("%q: %v", accept, w.Header())
		}
		var in io.Reader = w.Body
		if zipped {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			in = z
		}
		if text, err := io.ReadAll(in); err != nil || !strings.Contains(string(text), "</html>") {
			t.Errorf("%q: %v, %d bytes", accept, err, len(text))
		}
	}
}

// Fifty pools can be sorted by each column, without a script.
func TestOverviewOrders(t *testing.T) {
	percent := rtdebug.SetGCPercent(-1) // a slab that a collection has found, and not finalized yet, counts nowhere
	t.Cleanup(func() { rtdebug.SetGCPercent(percent) })
	var pools []*tarn.Pool
	for i := range 50 {
		p := named(t, fmt.Sprintf("p%02d", (i*7)%50))
		for range (i * 11) % 50 {
			p.Get(100).Free()
		}
		pools = append(pools, p)
	}
	h := Handler(pools...)
	rows := func(query string) []string {
		var names []string
		for _, m := range regexp.MustCompile(`data-pool="(\w+)"`).FindAllStringSubmatch(body(t, get(t, h, "/"+query)), -1) {
			names = append(names, m[1])
		}
		return names
	}
	if got := rows("?sort=name"); len(got) != 50 || got[0] != "p00" || got[49] != "p49" {
		t.Errorf("by name: %v", got)
	}
	most := 0
	for i := range pools {
		if (i*11)%50 > (most*11)%50 {
			most = i
		}
	}
	if got := rows("?sort=gets"); got[0] != pools[most].Name() {
		t.Errorf("by gets: %v first, want %v", got[0], pools[most].Name())
	}
	if got := rows("?sort=nonsense"); got[0] != pools[0].Name() {
		t.Errorf("by what there is not: %v", got[0])
	}
	for by := range orders {
		if text := body(t, get(t, h, "/?sort="+string(by))); strings.Count(text, "aria-sort=") != 1 {
			t.Errorf("by %s: no column is marked", by)
		}
	}
}
