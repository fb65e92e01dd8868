package debug

import (
	"bytes"
	"cmp"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tarn-go/tarn/debug/endpoint"
	"github.com/tarn-go/tarn/internal/plot"
)

// endpoint finds a server or client by name; no name means the first. It returns -1 if there is none.
func (s *Snapshot) endpoint(name string) int {
	for i := range s.Endpoints {
		if name == "" || s.Endpoints[i].Name == name {
			return i
		}
	}
	return -1
}

// callsView is what the template of a server's or client's page shows.
type callsView struct {
	*Snapshot
	Title   string
	View    string
	E       *endpoint.State
	Blocked int               // streams, on the connections listed
	Methods []endpoint.Method // by their 99th percentile
	Slow    []endpoint.Method // by their slowest call of the last minute; those that have one, at most mostSlow
	Events  []event           // what went wrong, and how often
	Conns   []endpoint.Conn
	First   template.JS
	CSS     template.CSS
	JS      template.JS
}

// mostSlow is how many calls the page lists as the slowest.
const mostSlow = 8

// slow returns the methods that have a slowest call, the slowest first.
func slow(methods []endpoint.Method) []endpoint.Method {
	list := slices.DeleteFunc(slices.Clone(methods), func(m endpoint.Method) bool { return m.Slowest == nil })
	slices.SortStableFunc(list, func(a, b endpoint.Method) int { return cmp.Compare(b.Slowest.Seconds, a.Slowest.Seconds) })
	return list[:min(len(list), mostSlow)]
}

// event is something that happened to connections or streams.
type event struct {
	What  string
	Count uint64
	Level level // "" for what is no trouble
}

// calls renders the page of a server or client.
func (pg *page) calls(s *Snapshot, chosen int) ([]byte, error) {
	e := &s.Endpoints[chosen]
	first, err := liveOf(s, "")
	if err != nil {
		return nil, err
	}
	v := callsView{Snapshot: s, Title: e.Name, View: "calls", E: e, Methods: slices.Clone(e.Methods), Slow: slow(e.Methods), Conns: e.Connections, Events: events(e),
		First: first, CSS: pg.css, JS: pg.js}
	for _, c := range e.Connections {
		v.Blocked += c.Blocked
	}
	slices.SortStableFunc(v.Methods, func(a, b endpoint.Method) int { return cmp.Compare(latest(b).P99, latest(a).P99) })
	page := "calls"
	if e.Session != nil {
		page = "session"
	}
	var out bytes.Buffer
	err = pg.template.ExecuteTemplate(&out, page, v)
	return out.Bytes(), err
}

// latest is what a method's calls took in the last minute, or since the program began if none ended in that minute.
func latest(m endpoint.Method) endpoint.Recent {
	if m.Minute.Ended > 0 {
		return m.Minute
	}
	return endpoint.Recent{P50: m.P50, P99: m.P99}
}

// events lists what happened to an endpoint's connections and streams: first what always has a line.
func events(e *endpoint.State) []event {
	bad := func(n uint64, l level) level {
		if n == 0 {
			return ""
		}
		return l
	}
	of := func(n uint64, noun, rest string) string {
		if n != 1 {
			noun += "s"
		}
		return noun + rest
	}
	list := []event{
		{of(e.ResetsSent, "stream", " reset by this side"), e.ResetsSent, ""},
		{of(e.ResetsReceived, "stream", " reset by peers"), e.ResetsReceived, ""},
		{of(e.Refused, "stream", " refused (REFUSED_STREAM)"), e.Refused, bad(e.Refused, warn)},
		{of(e.KeepaliveTimeouts, "connection", " that did not answer keepalive"), e.KeepaliveTimeouts, bad(e.KeepaliveTimeouts, warn)},
	}
	for _, reason := range slices.Sorted(maps.Keys(e.Ended)) {
		list = append(list, event{of(e.Ended[reason], "connection", " ended: "+reason), e.Ended[reason], "bad"})
	}
	for _, of := range []struct {
		what  string
		codes map[string]uint64
	}{{"GOAWAY sent", e.GoAwaysSent}, {"GOAWAY received", e.GoAwaysReceived}} {
		for _, code := range slices.Sorted(maps.Keys(of.codes)) {
			l := warn
			if code == "NO_ERROR" {
				l = ""
			}
			list = append(list, event{of.what + ": " + code, of.codes[code], l})
		}
	}
	return list
}

// breakable is name as HTML in which a line may break between the words of it and nowhere else: before "/" and a capital
// after a small letter, behind "." and "_".
func breakable(name string) template.HTML {
	var out strings.Builder
	from, last := 0, rune(0)
	for i, r := range name {
		if i > 0 && (r == '/' || last == '.' || last == '_' || unicode.IsUpper(r) && unicode.IsLower(last)) {
			out.WriteString(template.HTMLEscapeString(name[from:i]) + "<wbr>")
			from = i
		}
		last = r
	}
	return template.HTML(out.String() + template.HTMLEscapeString(name[from:]))
}

// breakableTrace is the identity of a trace as HTML in which a line may break after each eight of its digits.
func breakableTrace(id string) template.HTML {
	var out strings.Builder
	for len(id) > 8 {
		out.WriteString(template.HTMLEscapeString(id[:8]) + "<wbr>")
		id = id[8:]
	}
	return template.HTML(out.String() + template.HTMLEscapeString(id))
}

// breakablePeer is an address as HTML in which a line may break before the port.
func breakablePeer(addr string) template.HTML {
	i := max(strings.LastIndexByte(addr, ':'), 0)
	return template.HTML(template.HTMLEscapeString(addr[:i]) + "<wbr>" + template.HTMLEscapeString(addr[i:]))
}

// callFunctions are what the template of calls uses.
func callFunctions() template.FuncMap {
	return template.FuncMap{
		"span":   plot.Span,
		"latest": latest,
		"secs":   func(s float64) string { return plot.Span(time.Duration(s * float64(time.Second))) },
		"mean": func(m endpoint.Method) string {
			return plot.Span(time.Duration(m.Seconds / float64(max(m.Ended(), 1)) * float64(time.Second)))
		},
		"codes": func(m endpoint.Method) []event {
			var list []event
			for _, code := range slices.Sorted(maps.Keys(m.Codes)) {
				switch {
				case endpoint.Failure(code):
					list = append(list, event{code, m.Codes[code], bad})
				case code == "4xx":
					list = append(list, event{code, m.Codes[code], warn})
				}
			}
			slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(b.Count, a.Count) })
			return list
		},
		"breakable": breakable,
		"host":      breakablePeer,
		"trace":     breakableTrace,
		"window":    func(n any) string { return plot.Bytes(max(float(n), 0)) },
	}
}
