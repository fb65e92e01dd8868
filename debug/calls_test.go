package debug

import (
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/endpoint"
)

// scripted is a server or client whose state a test has written. Its calls grow with each look.
type scripted struct {
	state endpoint.State
	looks uint64
}

func (s *scripted) Endpoint() endpoint.State {
	e := s.state
	if e.Observed {
		s.looks++ // the watcher looks one at a time
		e.Calls += 500 * s.looks
		e.Done += 500 * s.looks
		e.Failed += 3 * s.looks
		e.Seconds += 0.4 * float64(s.looks)
	}
	return e
}

// serverState is that of a server with everything that the page shows.
func serverState() endpoint.State {
	return endpoint.State{
		Kind: "gRPC server", Name: "127.0.0.1:50051", Conns: 3, Streams: 41, Waiting: 0,
		ResetsSent: 12, ResetsReceived: 3044, Refused: 70, KeepaliveTimeouts: 10,
		GoAwaysSent:     map[string]uint64{"ENHANCE_YOUR_CALM": 2, "NO_ERROR": 5},
		GoAwaysReceived: map[string]uint64{"NO_ERROR": 1},
		Ended:           map[string]uint64{"too many resets": 2},
		Connections: []endpoint.Conn{
			{Peer: "10.0.0.7:41034", Age: 26 * time.Hour, Streams: 38, Blocked: 4, SendWindow: 0, RecvWindow: 1 << 20, StreamWindow: 4 << 20, Unread: 70000, RTT: 180 * time.Microsecond},
			{Peer: "10.0.0.9:55002", Age: 90 * time.Second, Streams: 3, SendWindow: 60000, RecvWindow: 1 << 20, StreamWindow: 256 << 10, Draining: true},
			{Peer: "[2001:db8::1]:443", Age: 3 * time.Second, SendWindow: 65535, RecvWindow: 1 << 20, StreamWindow: 256 << 10},
		},
		Observed: true, Calls: 120041, Done: 120000, Failed: 912, Active: 41, Seconds: 900,
		Methods: []endpoint.Method{
			{Name: "/shop.Cart/Get", Started: 100000, Active: 3, Codes: map[string]uint64{"OK": 99900, "NotFound": 97}, Seconds: 80, P50: 0.0005, P99: 0.004, Durations: make([]uint64, len(endpoint.Bounds()))},
			{Name: "/shop.Orders/<Place>", Started: 20000, Active: 30, Codes: map[string]uint64{"OK": 19155, "Unavailable": 800, "DeadlineExceeded": 15}, Seconds: 800, P50: 0.03, P99: 1.4, Slowest: &endpoint.Slow{Seconds: 1.7, Trace: "4bf92f3577b34da6a3ce929d0e0e4736"}},
			{Name: "/grpc.testing.TestService/CacheableUnaryCall", Started: 4000, Active: 18, Seconds: 3, P50: 0.000007, P99: 0.0573,
				Codes: map[string]uint64{"OK": 1000, "NotFound": 2711, "DeadlineExceeded": 1650, "FailedPrecondition": 696, "Canceled": 721}},
			{Name: "/shop.Events/Watch", Started: 41, Active: 8, Codes: map[string]uint64{"OK": 33}, Seconds: 20, P50: 1, P99: 1.1, Minute: endpoint.Recent{Ended: 5, P50: 1.5, P99: 7}, Slowest: &endpoint.Slow{Seconds: 7.25}},
		},
		Waits: []endpoint.Wait{
			{Method: "/shop.Events/Watch", For: "the peer's window or the network", Calls: 4, Oldest: 95 * time.Second},
			{Method: "/shop.Orders/<Place>", For: "its handler", Calls: 30, Oldest: 700 * time.Millisecond},
		},
	}
}

// registryOf has a pool, a server, a client, and a server of net/http.
func registryOf(pool *tarn.Pool) *Registry {
	r := NewRegistry(pool)
	r.AddEndpoints(&scripted{state: serverState()},
		&scripted{state: endpoint.State{Kind: "gRPC client", Name: "dns:///orders:443", Conns: 2, Waiting: 5}},
		&scripted{state: endpoint.State{Kind: "gRPC client", Name: "names:///a-service-with-a-rather-long-name.production.svc.cluster.local"}},
		&scripted{state: endpoint.State{Kind: "HTTP server", Name: ":8443", Observed: true, Active: 2}}, &scripted{state: endpoint.State{Kind: "HTTP server", Name: ":8443"}})
	return r
}

func TestCallsPage(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	r := registryOf(pool)
	h := HandlerOf(r)
	get := func(query string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/debug/tarn/"+query, nil))
		return w.Code, w.Body.String()
	}
	code, page := get("?view=calls")
	for _, want := range []string{"gRPC server 127.0.0.1:50051", "/shop.<wbr>Orders<wbr>/&lt;Place&gt;", "800 Unavailable", "15 Deadline<wbr>Exceeded", "10.0.0.7<wbr>:41034", "26 h", "1 min", "draining",
		"too many resets", "ENHANCE_YOUR_CALM", "the peer&#39;s window or the network", "REFUSED_STREAM", `<code class="trace">4bf92f35<wbr>77b34da6<wbr>a3ce929d<wbr>0e0e4736</code>`, `<a href="?format=goroutines&amp;method=%2fshop.`, "gRPC client dns:///orders:443", "HTTP server :8443 2"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if code != 200 || strings.Index(page, `data-method="/shop.Events/Watch"`) > strings.Index(page, `data-method="/shop.Cart/Get"`) {
		t.Errorf("%d; the slowest method is not first", code)
	}
	if row := page[strings.Index(page, `data-method="/shop.Events/Watch"`):]; !strings.Contains(row[:400], "7 s</td>") || strings.Index(page, `data-method="/shop.Events/Watch"`) > strings.Index(page, `data-method="/shop.Orders/`) {
		t.Error("the times of the last minute are not shown, or do not decide the order")
	}
	if code, page := get("?view=calls&endpoint=gRPC+client+dns:///orders:443"); code != 200 || !strings.Contains(page, "rpc.WithObserveCalls()") || !strings.Contains(page, "There is no HTTP/2 connection") {
		t.Errorf("the client's page: %d %s", code, page)
	}
	if _, page := get("?view=calls&endpoint=HTTP+server+:8443"); !strings.Contains(page, "2 requests are in progress") {
		t.Error("requests in progress are not mentioned by a server that knows no more of them")
	}
	if code, _ := get("?view=calls&endpoint=none"); code != 404 {
		t.Errorf("an unknown endpoint: %d", code)
	}
	if _, page := get(""); !strings.Contains(page, `href="?view=calls"`) {
		t.Error("the page of pools has no way to the calls")
	}
	_, text := get("?format=live")
	var live Snapshot
	if err := json.Unmarshal([]byte(text), &live); err != nil || len(live.Endpoints) != 5 || live.Endpoints[0].Connections != nil || len(live.Endpoints[0].Methods) != 4 {
		t.Errorf("the live form: %v, %.300s", err, text)
	}
	for _, m := range live.Endpoints[0].Methods {
		if m.Durations != nil {
			t.Errorf("the live form has the histogram of %s", m.Name)
		}
	}
	var all Snapshot
	if _, text := get("?format=json"); json.Unmarshal([]byte(text), &all) != nil || len(all.Endpoints[0].Methods[0].Durations) != len(endpoint.Bounds()) {
		t.Errorf("JSON lacks the histogram: %.300s", text)
	}
	if !strings.Contains(page, `<a href="?format=goroutines">goroutines</a>`) {
		t.Error("the page does not lead to the stacks of goroutines")
	}
	_, text = get("?format=prometheus")
	for _, want := range []string{
		`tarn_endpoint_connections{endpoint="gRPC server 127.0.0.1:50051"} 3`,
		`tarn_endpoint_goaways_sent_total{endpoint="gRPC server 127.0.0.1:50051",code="ENHANCE_YOUR_CALM"} 2`,
		`tarn_endpoint_ended_total{endpoint="gRPC server 127.0.0.1:50051",reason="too many resets"} 2`,
		`tarn_endpoint_calls_total{endpoint="gRPC server 127.0.0.1:50051",method="/shop.Orders/<Place>",code="Unavailable"} 800`,
		`tarn_endpoint_waiting{endpoint="gRPC client dns:///orders:443"} 5`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	r.RemoveEndpoints(r.Endpoints()...)
	if got := NewWatcher(r).Snapshot(); got.Endpoints != nil {
		t.Errorf("after RemoveEndpoints: %v", got.Endpoints)
	}
	w := httptest.NewRecorder()
	HandlerOf(r).ServeHTTP(w, httptest.NewRequest("GET", "/debug/tarn/?view=calls", nil))
	if w.Code != 404 {
		t.Errorf("without endpoints: %d", w.Code)
	}
}

// sessions are an SMB session that is busy, and one that has no connection.
func sessions(pool *tarn.Pool) *Registry {
	r := NewRegistry(pool)
	r.AddEndpoints(&scripted{state: endpoint.State{Kind: "SMB session", Name: "dc1.example.org:445", Conns: 1, Session: &endpoint.Session{
		Server: "dc1.example.org:445", Servers: []string{"dc1.example.org:445", "dc2.example.org:445"}, Dialect: "3.1.1",
		Protection: "encrypted with AES-128-GCM", Age: 90 * time.Second, InFlight: 17, Credits: 480, Waiting: 2, Received: 5 << 20, Sent: 3 << 30, Reconnects: 4}}},
		&scripted{state: endpoint.State{Kind: "SMB session", Name: "nas:445", Session: &endpoint.Session{
			Server: "nas:445", Servers: []string{"nas:445"}, Dialect: "2.1", Protection: "none"}}})
	return r
}

func TestSessionPage(t *testing.T) {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	h := HandlerOf(sessions(pool))
	get := func(query string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/debug/tarn/"+query, nil))
		return w.Body.String()
	}
	for query, wants := range map[string][]string{
		"?view=calls": {"SMB session dc1.example.org:445", "dc2.example.org<wbr>:445", "3.1.1", "encrypted with AES-128-GCM", "1 min", "<dd>17</dd>", "<dd>480</dd>", "5 MiB", "3 GiB", "<dd>4</dd>", "SMB session nas:445"},
		"?view=calls&endpoint=SMB+session+nas:445": {"not connected", "2.1", `<span class="warn">none</span>`},
		"?format=json": {`"session":{"server":"dc1.example.org:445"`, `"in_flight":17`, `"received":5242880,"sent":3221225472,"reconnects":4`},
		"?format=prometheus": {
			`tarn_endpoint_session_connected{endpoint="SMB session dc1.example.org:445",server="dc1.example.org:445",dialect="3.1.1",protection="encrypted with AES-128-GCM"} 1` + "\n",
			`tarn_endpoint_session_connected{endpoint="SMB session nas:445",server="nas:445",dialect="2.1",protection="none"} 0` + "\n",
			`tarn_endpoint_session_requests_in_flight{endpoint="SMB session dc1.example.org:445"} 17` + "\n",
			`tarn_endpoint_session_credits{endpoint="SMB session dc1.example.org:445"} 480` + "\n",
			`tarn_endpoint_session_waiting{endpoint="SMB session dc1.example.org:445"} 2` + "\n",
			`tarn_endpoint_session_received_bytes_total{endpoint="SMB session dc1.example.org:445"} 5.24288e+06` + "\n",
			`tarn_endpoint_session_sent_bytes_total{endpoint="SMB session dc1.example.org:445"} 3.221225472e+09` + "\n",
			`tarn_endpoint_session_reconnects_total{endpoint="SMB session dc1.example.org:445"} 4` + "\n",
		},
	} {
		text := get(query)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", query, want)
			}
		}
	}
}

func TestBrowserSession(t *testing.T) {
	v := visitSource(t, sessions(busyPool(t, tarn.PoolConfig{Name: "one"}).Pool))
	v.must(v.Open(v.ctx, v.url+"?view=calls"))
	for _, scheme := range []string{"light", "dark"} {
		v.must(v.Scheme(v.ctx, scheme))
		for name, width := range map[string]int{"phone": 360, "desktop": 1280} {
			v.must(v.Size(v.ctx, width, 800, 1))
			v.until(`innerWidth == ` + strconv.Itoa(width) + ` && document.querySelector("h1").textContent == "SMB session dc1.example.org:445"`)
			v.until(`document.documentElement.scrollWidth <= innerWidth`)
			v.whole()
			v.shoot("session-" + name + "-" + scheme)
		}
	}
	v.content()
}

func TestBrowserCalls(t *testing.T) {
	pool := busyPool(t, tarn.PoolConfig{Name: "one"})
	v := visitSource(t, registryOf(pool.Pool))
	v.must(v.Open(v.ctx, v.url))
	v.until(`document.querySelector(".views a[href='?view=calls']")`)
	v.must(v.Eval(v.ctx, `document.querySelector(".views a[href='?view=calls']").click()`, nil))
	v.until(`document.querySelector("h1") && document.querySelector("h1").textContent == "gRPC server 127.0.0.1:50051"`)
	v.until(`/\d/.test(document.getElementById("calls-rate").textContent) && /\d/.test(document.getElementById("mean-now").textContent)`)
	v.until(`document.querySelectorAll("#calls svg path").length >= 2 && document.querySelectorAll("#errors svg path").length >= 2`)
	v.until(`document.querySelectorAll("tr[data-method]").length == 4 && /\d/.test(document.querySelector("tr[data-method] .rate").textContent)`)
	for _, scheme := range []string{"light", "dark"} {
		v.must(v.Scheme(v.ctx, scheme))
		for name, width := range map[string]int{"small": 320, "phone": 360, "tablet": 768, "desktop": 1280} {
			v.must(v.Size(v.ctx, width, 800, 1))
			v.until(`innerWidth == ` + strconv.Itoa(width) + ` && document.querySelector("#calls svg path")`)
			v.until(`document.documentElement.scrollWidth <= innerWidth`)
			if width >= 360 { // below, the methods scroll rather than break within a word
				v.uncut()
			}
			v.whole()
			v.shoot("calls-" + name + "-" + scheme)
		}
	}
	v.must(v.Eval(v.ctx, `document.querySelector(".tabs a[href*=orders]").click()`, nil))
	v.until(`document.querySelector("h1") && document.querySelector("h1").textContent == "gRPC client dns:///orders:443"`)
	v.until(`document.body.innerText.includes("WithObserveCalls")`)
	v.content()
}

func TestBrowserCallsAccessibility(t *testing.T) {
	inBrowser(t)
	v := visitSource(t, registryOf(busyPool(t, tarn.PoolConfig{Name: "one"}).Pool))
	v.accessible("?view=calls", "?view=calls&endpoint=gRPC%20client%20dns:///orders:443")
	v = visitSource(t, sessions(busyPool(t, tarn.PoolConfig{Name: "two"}).Pool))
	v.accessible("?view=calls")
}

// One connection is not "1 connections".
func TestEventsOfOne(t *testing.T) {
	one := &endpoint.State{ResetsSent: 1, ResetsReceived: 1, Refused: 1, KeepaliveTimeouts: 1, Ended: map[string]uint64{"too many resets": 1}}
	for _, e := range events(one) {
		if strings.HasPrefix(e.What, "streams ") || strings.HasPrefix(e.What, "connections ") {
			t.Errorf("%d %s", e.Count, e.What)
		}
	}
}
