package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// httpReport is what is read of the output of "tarn bench -json http".
type httpReport struct {
	Started  time.Time `json:"started"`
	Sections []struct {
		Cases []httpCase `json:"cases"`
	} `json:"sections"`
}

// httpCase is one comparison of a run. The first metric is the one that ratios are taken of, and the first row is what the
// others are compared with.
type httpCase struct {
	Title   string `json:"title"`
	Metrics []struct {
		Key   string `json:"key"`
		Label string `json:"label"`
		Unit  string `json:"unit"`
	} `json:"metrics"`
	Rows []struct {
		Name   string             `json:"name"`
		Values map[string]float64 `json:"values"`
	} `json:"rows"`
}

// httpRuns holds the cases of several runs by title, and the titles in their order.
type httpRuns struct {
	started []string // to the minute, UTC
	titles  []string
	cases   map[string][]httpCase
}

// readHTTP reads a file of runs, one JSON value after the other. A missing file holds none.
func readHTTP(name string) (*httpRuns, error) {
	h := &httpRuns{cases: make(map[string][]httpCase)}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var r httpReport
		if err := d.Decode(&r); err == io.EOF {
			return h, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		h.started = append(h.started, r.Started.UTC().Format("2006-01-02 15:04"))
		for _, s := range r.Sections {
			for _, c := range s.Cases {
				if len(c.Metrics) == 0 || len(c.Rows) == 0 {
					return nil, fmt.Errorf("%s: %q has no values", name, c.Title)
				}
				if h.cases[c.Title] == nil {
					h.titles = append(h.titles, c.Title)
				}
				h.cases[c.Title] = append(h.cases[c.Title], c)
			}
		}
	}
}

// table lists what each contestant of each case reached, and its ratio to the case's first contestant within each run.
func (h *httpRuns) table() string {
	if len(h.started) == 0 {
		return "Not measured yet.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs, begun at (UTC) %s.\n\n| work | | median (range) | of the first's |\n|---|---|---:|---:|\n", len(h.started), strings.Join(h.started, ", "))
	for _, title := range h.titles {
		cases := h.cases[title]
		metric := cases[0].Metrics[0]
		label := title + ", " + metric.Label
		for i, row := range cases[0].Rows {
			var values, ratios []float64
			for _, c := range cases {
				v, ok := c.value(row.Name)
				if !ok {
					continue
				}
				values = append(values, v)
				if first, ok := c.value(cases[0].Rows[0].Name); ok && first > 0 && i > 0 {
					ratios = append(ratios, v/first)
				}
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", label, row.Name, medianAndRange(values, metric.Unit), medianAndRange(ratios, ""))
			label = ""
		}
	}
	return b.String()
}

// httpTarget is a target for a case: a bound for a contestant's value divided by the peer's in the same run.
type httpTarget struct {
	what, title, own, peer string
	sense                  sense
	bound                  float64
}

// targets are those of docs/h2http.md that are missed, or nearly.
func (h *httpRuns) targets() []httpTarget {
	const upload = "Upload of 64 MiB in one request"
	return []httpTarget{
		{"server, 1 MiB by http.ServeFile, processor time, against net/http's HTTP/2", "HTTP/2 server, responses of 1 MiB from a file, 32 streams on each of 4 connections", "tarn", "net/http", timesTheirs, 0.6},
		{"client of nginx, 100 B, processor time, against net/http's HTTP/2", "HTTP/2 client, responses of 100 B, 128 callers", "tarn", "net/http", timesTheirs, 0.4},
		{"upload of 64 MiB on loopback, bytes a second, against net/http's HTTP/2", upload, "tarn", "net/http, HTTP/2", timesMore, 1.5},
		{"the same, round trip 10 ms, against net/http's HTTP/1.1", upload + ", round trip 10ms", "tarn", "net/http, HTTP/1.1", timesMore, 1},
		{"memory of an idle connection of `ConfigureServer`, against net/http's HTTP/2", "Idle HTTP/2 connections, 500 of them", "ConfigureServer", "net/http", timesTheirs, 0.25},
	}
}

// verdicts compares the median of the runs' ratios with each target.
func (h *httpRuns) verdicts() string {
	var b strings.Builder
	b.WriteString("| what | target | measured (range over the runs) |\n|---|---|---|\n")
	for _, t := range h.targets() {
		var ratios []float64
		for _, c := range h.cases[t.title] {
			v, ok := c.value(t.own)
			w, okPeer := c.value(t.peer)
			if ok && okPeer && w > 0 {
				ratios = append(ratios, v/w)
			}
		}
		goal, measured := bar{first: t.bound, aim: none, sense: t.sense}, "not measured"
		if len(ratios) > 0 {
			measured = medianAndRange(ratios, "") + goal.verdict(middle(ratios))
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", t.what, goal.goal(t.bound), measured)
	}
	return b.String()
}

// firsts are the rows of the README's table about net/http: what they are called there, the case, and whom Tarn is compared with.
func (h *httpRuns) firsts() [][3]string {
	return [][3]string{
		{"server, 100 B: processor time a request", "HTTP/2 server, responses of 100 B, 32 streams on each of 4 connections", "net/http"},
		{"the same, beside nginx", "HTTP/2 server, responses of 100 B, 32 streams on each of 4 connections", "nginx"},
		{"server, a file of 1 MiB: processor time a request", "HTTP/2 server, responses of 1 MiB from a file, 32 streams on each of 4 connections", "net/http"},
		{"client, 100 B: processor time a request", "HTTP/2 client, responses of 100 B, 128 callers", "net/http"},
		{"upload of 64 MiB at 10 ms round trip: bytes a second, beside net/http's HTTP/2", "Upload of 64 MiB in one request, round trip 10ms", "net/http, HTTP/2"},
	}
}

// first is the README's table.
func (h *httpRuns) first() string {
	var b strings.Builder
	b.WriteString("| what | Tarn | the other | of it (range over the runs) |\n|---|---:|---:|---:|\n")
	for _, row := range h.firsts() {
		what, title, peer := row[0], row[1], row[2]
		if peer == "net/http" {
			what += ", beside net/http's HTTP/2"
		}
		var own, theirs, ratios []float64
		unit := ""
		for _, c := range h.cases[title] {
			v, ok := c.value("tarn")
			w, okPeer := c.value(peer)
			if !ok || !okPeer || w <= 0 {
				continue
			}
			unit = c.Metrics[0].Unit
			own, theirs, ratios = append(own, v), append(theirs, w), append(ratios, v/w)
		}
		if len(own) == 0 {
			fmt.Fprintf(&b, "| %s | not measured | | |\n", what)
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", what, medianAndRange([]float64{middle(own)}, unit),
			medianAndRange([]float64{middle(theirs)}, unit), medianAndRange(ratios, ""))
	}
	return b.String()
}

// value returns the first metric of the contestant called name.
func (c *httpCase) value(name string) (float64, bool) {
	for _, r := range c.Rows {
		if r.Name == name {
			v, ok := r.Values[c.Metrics[0].Key]
			return v, ok
		}
	}
	return 0, false
}

// medianAndRange writes the median of v and, of more than one, the lowest and the highest; nothing of none. unit is that of
// the command's metrics, and empty for ratios.
func medianAndRange(v []float64, unit string) string {
	if len(v) == 0 {
		return ""
	}
	write := func(v float64) string {
		switch unit {
		case "ns":
			return format(v, "ns/op")
		case "bytes":
			return formatBytes(v)
		case "":
			return fmt.Sprintf("%.2f", v)
		}
		return fmt.Sprintf("%.0f", v)
	}
	if len(v) == 1 {
		return write(v[0])
	}
	return fmt.Sprintf("%s (%s–%s)", write(middle(v)), write(slices.Min(v)), write(slices.Max(v)))
}
