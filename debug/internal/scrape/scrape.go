// Package scrape gives the tests of debug/prom and debug/otel what the page itself publishes, to compare theirs with.
package scrape

import (
	"net/http/httptest"
	"regexp"
	rtdebug "runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// Family is what a metric is, whatever its labels.
type Family struct {
	Type string // counter, gauge or histogram
	Help string
}

// Page is what the page publishes.
type Page struct {
	Families map[string]Family
	Samples  map[string]float64 // by [Key]
}

// Key names a sample: the metric, and its labels in the order of their names.
func Key(name string, labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, k+"="+strconv.Quote(v))
	}
	slices.Sort(pairs)
	return name + "{" + strings.Join(pairs, ",") + "}"
}

// server is an endpoint with a value of each kind.
type server struct{}

func (server) Endpoint() endpoint.State {
	return endpoint.State{
		Kind: "server", Name: "x", Conns: 3, Streams: 4, Waiting: 5, ResetsSent: 6, ResetsReceived: 7, Refused: 8, KeepaliveTimeouts: 9,
		GoAwaysSent: map[string]uint64{"NO_ERROR": 10}, GoAwaysReceived: map[string]uint64{"CANCEL": 11}, Ended: map[string]uint64{"too many resets": 12},
		Connections: []endpoint.Conn{{Peer: "peer", Age: time.Hour, Streams: 4}}, Observed: true, Calls: 10, Done: 9, Failed: 1, Active: 1, Seconds: 0.5,
		Session: &endpoint.Session{Server: "nas:445", Servers: []string{"nas:445"}, Dialect: "3.1.1", Protection: "none", InFlight: 2, Credits: 3, Waiting: 4, Received: 5, Sent: 6, Reconnects: 7},
		Methods: []endpoint.Method{{Name: "/a/B", Started: 10, Active: 1, Codes: map[string]uint64{"OK": 8, "Internal": 1}, Seconds: 0.5,
			Minute:    endpoint.Recent{Ended: 5, P50: 0.25, P99: 0.75},
			Durations: slices.Concat(make([]uint64, 9), slices.Repeat([]uint64{9}, len(endpoint.Bounds())-9))}},
	}
}

// Source is a pool and a server with values of each family. They stay as they are until the test ends: no collection takes idle
// memory from the pool in between.
func Source(t testing.TB) debug.Source {
	t.Helper()
	percent := rtdebug.SetGCPercent(-1)
	t.Cleanup(func() { rtdebug.SetGCPercent(percent) })
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "parity", Classes: []int{4096, 65536}, Check: tarn.CheckAll})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		pool.Get(5000).Free()
	}
	for _, n := range []int{4000, 100_000} {
		t.Cleanup(pool.Get(n).Free)
	}
	r := debug.NewRegistry(pool)
	r.AddEndpoints(server{})
	return r
}

// Read reads the page's metrics.
func Read(t testing.TB, source debug.Source) Page {
	t.Helper()
	w := httptest.NewRecorder()
	debug.HandlerOf(source).ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/debug/tarn/metrics?classes=on", nil))
	if w.Code != 200 {
		t.Fatalf("the page's metrics: status %d", w.Code)
	}
	p := Page{map[string]Family{}, map[string]float64{}}
	sample := regexp.MustCompile(`^(\w+)\{(.*)\} (\S+)$`)
	pair := regexp.MustCompile(`(\w+)="([^"]*)"`)
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, _ := strings.Cut(text, " ")
			p.Families[name] = Family{Help: help}
			continue
		}
		if text, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, typ, _ := strings.Cut(text, " ")
			p.Families[name] = Family{Type: typ, Help: p.Families[name].Help}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("the page's metrics have the line %q", line)
		}
		labels := map[string]string{}
		for _, l := range pair.FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = l[2]
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		p.Samples[Key(m[1], labels)] = v
	}
	return p
}

// Compare reports how what another publisher has differs from the page.
func Compare(t testing.TB, got, page Page) {
	t.Helper()
	if len(page.Families) < 30 || len(page.Samples) < 60 {
		t.Errorf("the page has %d families and %d samples", len(page.Families), len(page.Samples))
	}
	differences(t, "family", got.Families, page.Families)
	differences(t, "sample", got.Samples, page.Samples)
}

func differences[V comparable](t testing.TB, what string, got, page map[string]V) {
	t.Helper()
	for name, want := range page {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s %s is %v (there: %v), on the page %v", what, name, v, ok, want)
		}
	}
	for name, v := range got {
		if _, ok := page[name]; !ok {
			t.Errorf("%s %s is %v, and the page lacks it", what, name, v)
		}
	}
}
