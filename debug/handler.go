package debug

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/internal/metrics"
)

// Handler returns a handler that shows pools, in the order given; nil pools are left out, and without
// any pool it shows tarn.Shared. [HandlerOf] shows a set that changes. It may be mounted at any path.
// The query chooses what is served:
//
//	(none)              the page: with several pools an overview; ?pool=NAME the page of that pool
//	?view=calls         the page of servers and clients, if source has any (see Registry.AddEndpoints);
//	                    with &endpoint=NAME that of one
//	?format=json        a Snapshot, as JSON
//	?format=live        a Snapshot without histograms, sizing, outstanding buffers and connections
//	?format=history     a Past: the last hour of ?pool=NAME, or, with ?view=calls, of &endpoint=NAME
//	?format=prometheus  metrics in the text exposition format; with &classes=on also those of size classes
//	?format=pprof       who holds the pools' buffers, for go tool pprof; with &debug=1 as text
//	?format=goroutines  the stacks of the process's goroutines as text; with &method=NAME those with a function of that name
//	?format=histogram   the histogram of ?pool=NAME, or of the first, as sizing.Read takes it
//
// A path that ends in /json or /metrics means the same as those formats. Only GET and HEAD are
// answered. Answers are compressed for clients that take gzip. A request that arrives on a loopback address under a foreign host name is refused with 403,
// because it was sent by a page elsewhere whose name was made to resolve to this machine. The handler is
// safe for concurrent use. It holds the pools, the last answers, and 14 KiB of history for each pool, server and client: while it is
// referred to, a timer reads their counters every ten seconds. It needs no closing.
func Handler(pools ...*tarn.Pool) http.Handler {
	if len(pools) == 0 {
		pools = []*tarn.Pool{tarn.Shared()}
	}
	return HandlerOf(fixed(pools))
}

// fixed is a Source that does not change.
type fixed []*tarn.Pool

func (f fixed) Pools() []*tarn.Pool { return f }

// HandlerOf returns a handler like that of [Handler] for the pools that source has at each request.
func HandlerOf(source Source) http.Handler {
	w := NewWatcher(source)
	return &handler{watcher: w, history: newHistory(w), page: newPage(), answers: map[string]*answer{}}
}

type handler struct {
	watcher *Watcher
	history *history
	page    *page

	mu      sync.Mutex
	answers map[string]*answer // of the newest snapshot, by format and pool
	of      *Snapshot
}

// answer is a body ready to be sent.
type answer struct {
	contentType string
	body        []byte
	zipped      func() []byte // body, compressed once
}

// makeAnswer returns the answer of a body.
func makeAnswer(contentType string, body []byte) *answer {
	return &answer{contentType, body, sync.OnceValue(func() []byte {
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // a valid level
		z.Write(body)
		z.Close()
		return out.Bytes()
	})}
}

// leastZipped is from how many bytes on an answer is compressed: more than one packet's.
const leastZipped = 1400

// send writes an answer. No lock is held: a slow reader is net/http's to bound.
func (a *answer) send(w http.ResponseWriter, r *http.Request) {
	body, header := a.body, w.Header()
	header.Set("Content-Type", a.contentType)
	header.Set("Vary", "Accept-Encoding")
	if len(body) >= leastZipped && takesGzip(r.Header.Values("Accept-Encoding")) {
		body = a.zipped()
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// takesGzip reports whether a request's Accept-Encoding gives gzip a weight other than 0, by name or else by * (RFC 9110 section 12.5.3).
func takesGzip(accepted []string) bool {
	any := false
	for part := range strings.SplitSeq(strings.Join(accepted, ","), ",") {
		coding, weight, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(part, " ", "")), ";q=")
		q, err := strconv.ParseFloat(weight, 64)
		takes := weight == "" || err == nil && q > 0
		switch coding {
		case "gzip":
			return takes
		case "*":
			any = takes
		}
	}
	return any
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", h.page.policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "this page only reads", http.StatusMethodNotAllowed)
		return
	}
	if !hostAllowed(r) {
		http.Error(w, "this address is not served under the name "+strconv.Quote(r.Host)+"; use localhost or the address itself", http.StatusForbidden)
		return
	}
	query := r.URL.Query()
	form := format(r.URL.Path, query.Get("format"))
	if form == "pprof" {
		h.profile(w, query.Get("debug"))
		return
	}
	if form == "goroutines" {
		a, err := goroutines(query.Get("method"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		a.send(w, r)
		return
	}
	if form == "prometheus" && query.Get("classes") == "on" {
		form = "prometheus with classes"
	}
	snapshot := h.watcher.Snapshot()
	chosen := snapshot.choose(query.Get("pool"))
	if form == "page" && query.Get("pool") == "" && len(snapshot.Pools) != 1 {
		form, chosen = "overview", 0
	}
	if chosen < 0 && (query.Get("pool") != "" || form == "histogram" || form == "history" && query.Get("view") != "calls") {
		http.Error(w, "no such pool", http.StatusNotFound)
		return
	}
	if form == "overview" {
		form += " " + string(orderOf(query.Get("sort")))
	}
	if form == "page" || form == "history" || strings.HasPrefix(form, "overview") {
		if query.Get("view") == "calls" {
			chosen = snapshot.endpoint(query.Get("endpoint"))
			switch {
			case chosen < 0:
				http.Error(w, "no such server or client", http.StatusNotFound)
				return
			case form == "history":
				form = "history of calls"
			default:
				form = "calls"
			}
		}
	}
	a, err := h.answer(snapshot, form, chosen)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	case a == nil:
		http.Error(w, "no such format; there are json, live, history, prometheus, histogram, pprof and goroutines", http.StatusNotFound)
		return
	}
	a.send(w, r)
}

// profile serves the references that are out, as go tool pprof reads them, or as text.
func (h *handler) profile(w http.ResponseWriter, debug string) {
	level, err := strconv.Atoi(debug)
	if err != nil && debug != "" || level < 0 {
		http.Error(w, "debug is 0 or 1", http.StatusBadRequest)
		return
	}
	pools := h.watcher.source.Pools()
	var out bytes.Buffer
	if level > 0 {
		for _, p := range pools {
			if p == nil {
				continue
			}
			watched := p.Outstanding()
			fmt.Fprintf(&out, "pool %q: %d watched buffers; checks: %v\n", p.Name(), len(watched), p.Stats().Check)
			for _, holder := range tarn.Holders(watched) {
				fmt.Fprintf(&out, "pool %q: %v\n", p.Name(), holder)
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		if err := tarn.WriteProfile(&out, pools...); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", `attachment; filename="tarn.buffers.pb.gz"`)
	}
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	w.Write(out.Bytes())
}

// format reads the format out of the query, or else out of the end of the path; "" if there is no such format. The other
// pages are not among them: ServeHTTP chooses these.
func format(path, query string) string {
	switch query {
	case "page", "json", "live", "history", "prometheus", "histogram", "pprof", "goroutines":
		return query
	case "":
	default:
		return ""
	}
	for suffix, format := range map[string]string{"/json": "json", "/metrics": "prometheus"} {
		if len(path) >= len(suffix) && path[len(path)-len(suffix):] == suffix {
			return format
		}
	}
	return "page"
}

// choose finds a pool by name; no name means the first. It returns -1 if there is none.
func (s *Snapshot) choose(name string) int {
	for i := range s.Pools {
		if name == "" || s.Pools[i].Name == name {
			return i
		}
	}
	return -1
}

// answer makes each answer to a snapshot once, however many requests ask for it.
func (h *handler) answer(s *Snapshot, format string, chosen int) (*answer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of != s {
		clear(h.answers)
		h.of = s
	}
	key := format
	switch format {
	case "page", "histogram", "history", "history of calls", "calls":
		key += " " + strconv.Itoa(chosen)
	}
	if a, ok := h.answers[key]; ok {
		return a, nil
	}
	a, err := h.render(s, format, chosen)
	if err == nil && a != nil {
		h.answers[key] = a
	}
	return a, err
}

func (h *handler) render(s *Snapshot, format string, chosen int) (*answer, error) {
	if by, ok := strings.CutPrefix(format, "overview "); ok {
		return html(h.page.overview(s, order(by)))
	}
	switch format {
	case "page":
		return html(h.page.render(s, chosen))
	case "calls":
		return html(h.page.calls(s, chosen))
	case "json":
		return encode(s)
	case "live":
		return encode(s.live())
	case "history":
		return encode(h.history.pool(s.Pools[chosen].Name))
	case "history of calls":
		return encode(h.history.endpoint(s.Endpoints[chosen].Name))
	case "histogram":
		return encode(s.Pools[chosen].Histogram)
	case "prometheus":
		return makeAnswer(prometheusType, prometheusText(s, nil)), nil
	case "prometheus with classes":
		return makeAnswer(prometheusType, prometheusText(s, metrics.Classes())), nil
	default:
		return nil, nil
	}
}

func html(body []byte, err error) (*answer, error) {
	if err != nil {
		return nil, err
	}
	return makeAnswer("text/html; charset=utf-8", body), nil
}

func encode(v any) (*answer, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return makeAnswer("application/json; charset=utf-8", append(body, '\n')), nil
}

// live is s without what is large.
func (s *Snapshot) live() *Snapshot {
	short := *s
	short.Pools = make([]Pool, len(s.Pools))
	for i, p := range s.Pools {
		p.Histogram, p.Sizing, p.Outstanding = nil, nil, nil
		p.Classes = []Class{} // never null, which no reader of a list expects
		for _, c := range s.Pools[i].Classes {
			if c.Gets > 0 {
				p.Classes = append(p.Classes, c)
			}
		}
		short.Pools[i] = p
	}
	short.Endpoints = slices.Clone(s.Endpoints)
	for i := range short.Endpoints {
		e := &short.Endpoints[i]
		e.Connections, e.Methods = nil, slices.Clone(e.Methods)
		for j := range e.Methods {
			e.Methods[j].Durations = nil
		}
	}
	return &short
}

// Take returns a Snapshot of pools now, for programs that publish it themselves. It queries the pools each
// time, so its cost is that of Stats, Histogram and Outstanding, and of solving the ladder.
func Take(pools ...*tarn.Pool) *Snapshot {
	c := NewWatcher(fixed(pools))
	c.started = time.Time{}
	return c.Snapshot()
}
