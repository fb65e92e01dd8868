package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// Of a server that counts its requests, the routes of the last minute are shown, the slowest first, and no others; then what calls wait for.
func TestCalls(t *testing.T) {
	e := endpoint.State{Kind: "HTTP server", Name: "HTTP server :80", Conns: 1, Observed: true, Active: 2, Done: 2500, Failed: 3, Methods: []endpoint.Method{
		{Name: "GET /quiet", Started: 2000, P50: 1, P99: 2},
		{Name: "GET /often", Minute: endpoint.Recent{Ended: 300, P50: 0.000120, P99: 0.0042}},
		{Name: "POST /slow\x1b[2J", Codes: map[string]uint64{"2xx": 190, "4xx": 3, "5xx": 7}, Minute: endpoint.Recent{Ended: 200, P50: 1.5, P99: 12}},
	}, Waits: []endpoint.Wait{{Method: "/shop.Events/Watch\x1b[2J", For: "its handler", Calls: 4, Oldest: time.Minute}}}
	for i := range mostMethods {
		e.Methods = append([]endpoint.Method{{Name: fmt.Sprintf("GET /%d", i), Minute: endpoint.Recent{Ended: 1, P50: 0.001, P99: 0.001}}}, e.Methods...)
	}
	s := &debug.Snapshot{Program: "svc", Endpoints: []endpoint.State{e, {Name: "not observed", Conns: 1}}}
	text := draw(view{now: s, width: 100})
	for _, want := range []string{
		"HTTP server :80 1 connection, 2 calls in progress, 3 of 2.5k failed\n" +
			"  in 1 min       p50       p99   failed  method\n" +
			"       200     1.5 s      12 s        7  POST /slow\uFFFD[2J\n" +
			"       300    120 µs    4.2 ms        0  GET /often\n",
		"  and 2 more\n  4 calls, the oldest for 1 min, in wait for its handler: /shop.Events/Watch\uFFFD[2J\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "/quiet") || strings.Contains(text, "not observed") || strings.ContainsRune(text, '\x1b') {
		t.Errorf("too much:\n%s", text)
	}
	for _, width := range []int{narrowest, 40, 80} {
		for line := range strings.Lines(draw(view{now: s, width: width})) {
			if n := lipgloss.Width(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns: a line has %d: %s", width, n, line)
			}
		}
	}
}
