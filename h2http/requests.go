package h2http

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/internal/latency"
	"github.com/tarn-go/tarn/internal/monotonic"
)

const (
	// maxRoutes bounds the routes that are counted apart, each of 4.6 KiB for each outcome that it has had. A ServeMux has as many patterns as
	// its program gives it, but a client may send requests to any number of hosts.
	maxRoutes = 256
	// maxRouteLen bounds the bytes of a pattern or host. Names of hosts have at most 255.
	maxRouteLen = 1 << 10
	// otherRoute stands for requests whose route is not known or too long, and for the routes beyond maxRoutes.
	otherRoute = "other"
)

// requests counts the requests of a server or a transport by route, from observe on.
type requests struct {
	observed atomic.Bool
	begun    atomic.Uint64

	routes atomic.Pointer[map[routeName]*route] // replaced by newRoute, never changed
	mu     sync.Mutex                           // guards the replacing
}

// routeName is a method of methodOf, and a pattern of a ServeMux or a client's host.
type routeName struct{ method, of string }

// routeNameOf returns the name of requests of method to of; an empty one is not known.
func routeNameOf(method, of string) routeName {
	if of == "" {
		of = otherRoute
	}
	return routeName{methodOf(method), of}
}

// route has what the requests of one route took that have ended, by how they have.
type route struct {
	took    [outcomes]atomic.Pointer[latency.Histogram] // nil: none has ended so
	slowest latency.Slowest
}

// outcome is how a request has ended: the class of its response's status, or without one.
type outcome uint8

const (
	noResponse  outcome = iota // reset, on a server; on a client an error as well
	success                    // 2xx
	redirection                // 3xx
	clientError                // 4xx
	serverError                // 5xx, as which others count (RFC 9110 section 15)
	outcomes
)

// outcomeNames are those of outcomes on a server.
var outcomeNames = [outcomes]string{"reset", "2xx", "3xx", "4xx", "5xx"}

// outcomeOf returns the outcome of a final status.
func outcomeOf(status int) outcome { return min(max(outcome(status/100), 2)-1, serverError) }

// observe has requests counted from now on.
func (q *requests) observe() { q.observed.Store(true) }

// begin reports whether requests are counted, and counts one that begins then.
func (q *requests) begin() (counted bool) {
	if !q.observed.Load() {
		return false
	}
	q.begun.Add(1)
	return true
}

// traced is a request, which has the field traceparent if it belongs to a trace.
type traced interface{ traceparent() string }

// add counts a request that ended at the time given.
func (r *route) add(how outcome, took time.Duration, now monotonic.Instant, of traced) {
	if r.slowest.Surpasses(took, now) {
		r.slowest.Keep(took, now, latency.TraceOf(of.traceparent()))
	}
	h := r.took[how].Load()
	if h == nil {
		r.took[how].CompareAndSwap(nil, new(latency.Histogram))
		h = r.took[how].Load()
	}
	h.Add(took, now)
}

// route returns the route of requests of name.
func (q *requests) route(name routeName) *route {
	name.of = withoutMethod(name.of)
	if all := q.routes.Load(); all != nil {
		if r := (*all)[name]; r != nil {
			return r
		}
		if len(*all) >= maxRoutes {
			if r := (*all)[routeName{name.method, otherRoute}]; r != nil {
				return r
			}
		}
	}
	return q.newRoute(name)
}

// patternOf returns the pattern that a ServeMux has set; empty: none, or one that may not be the program's. The mux sets a path of the client's
// when it redirects a CONNECT to the path with a slash at its end, which may match a wildcard; how a request that was reset would have ended is
// not known.
func patternOf(r *http.Request, how outcome) string {
	if r.Method == http.MethodConnect && (how == redirection || how == noResponse) {
		return ""
	}
	return r.Pattern
}

// withoutMethod returns what a pattern of a ServeMux has behind its method, if it has one.
func withoutMethod(pattern string) string {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		pattern = strings.TrimLeft(pattern[i:], " \t")
	}
	return pattern
}

func (q *requests) newRoute(name routeName) *route {
	q.mu.Lock()
	defer q.mu.Unlock()
	var old map[routeName]*route
	if all := q.routes.Load(); all != nil {
		old = *all
	}
	if len(old) >= maxRoutes || len(name.of) > maxRouteLen || !utf8.ValidString(name.of) { // labels of metrics are UTF-8
		name.of = otherRoute
	}
	if r := old[name]; r != nil {
		return r
	}
	all := make(map[routeName]*route, len(old)+1)
	maps.Copy(all, old)
	r := new(route)
	name.of = strings.Clone(name.of)
	all[name] = r
	q.routes.Store(&all)
	return r
}

// ending is how the request that a worker handles has ended, and the route of the one before, which is mostly the same.
type ending struct {
	status int               // of the response; 0: its end has not been written
	sentAt monotonic.Instant // when the response was sent whole, for whose Date the clock has been read; 0: it was not

	name  routeName
	route *route // of name; nil: there is none
}

// begin is called when a worker begins to handle a request.
func (e *ending) begin() { e.status, e.sentAt = 0, 0 }

// outcome returns how the request has ended. why is why its stream has ended early; nil: it has not.
func (e *ending) outcome(why error) outcome {
	if e.status == 0 || why != nil {
		return noResponse
	}
	return outcomeOf(e.status)
}

// count counts the request in q, whose name this is, which has begun at began.
func (e *ending) count(q *requests, name routeName, began monotonic.Instant, how outcome, of traced) {
	if e.route == nil || e.name != name {
		e.name, e.route = name, q.route(name)
	}
	ended := e.sentAt
	if ended == 0 {
		ended = monotonic.Now()
	}
	e.route.add(how, ended.Since(began), ended, of)
}

// methodOf returns a request's method if it is one of RFC 9110 or RFC 5789: clients may send any others.
func methodOf(method string) string {
	switch method {
	case "", http.MethodGet:
		return http.MethodGet
	case http.MethodHead:
		return http.MethodHead
	case http.MethodPost:
		return http.MethodPost
	case http.MethodPut:
		return http.MethodPut
	case http.MethodPatch:
		return http.MethodPatch
	case http.MethodDelete:
		return http.MethodDelete
	case http.MethodConnect:
		return http.MethodConnect
	case http.MethodOptions:
		return http.MethodOptions
	case http.MethodTrace:
		return http.MethodTrace
	}
	return "(other method)"
}

// report fills in the data about requests. aborted is the name of noResponse.
func (q *requests) report(s *endpoint.State, aborted string) {
	if !q.observed.Load() {
		return
	}
	s.Observed = true
	now := monotonic.Now()
	if all := q.routes.Load(); all != nil {
		for name, r := range *all {
			s.Methods = append(s.Methods, r.report(name.method+" "+name.of, aborted, now))
		}
	}
	for _, m := range s.Methods {
		s.Done, s.Failed, s.Seconds = s.Done+m.Started, s.Failed+m.Failed(), s.Seconds+m.Seconds
	}
	s.Calls = max(q.begun.Load(), s.Done) // loaded last: none has ended that has not begun
	s.Active = int64(s.Calls - s.Done)
	slices.SortFunc(s.Methods, func(a, b endpoint.Method) int {
		return cmp.Or(cmp.Compare(b.Started, a.Started), cmp.Compare(a.Name, b.Name))
	})
	if n := len(s.Methods) - endpoint.MaxMethods; n > 0 {
		s.Methods, s.More = s.Methods[:endpoint.MaxMethods], n
	}
}

func (r *route) report(name, aborted string, now monotonic.Instant) endpoint.Method {
	m := endpoint.Method{Name: name, Codes: make(map[string]uint64)}
	var all, last latency.Counts
	for how := range r.took {
		h := r.took[how].Load()
		if h == nil {
			continue
		}
		counts := h.All()
		all.Add(counts)
		last.Add(h.LastMinute(now))
		code := outcomeNames[how]
		if outcome(how) == noResponse {
			code = aborted
		}
		m.Codes[code] = counts.Total()
		m.Seconds += h.Sum().Seconds()
	}
	m.Started = all.Total()
	latency.Report(&m, &all, &last, &r.slowest, now)
	return m
}
