package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// turn is a measurement of both commits, section by section in turns.
type turn struct {
	At      time.Time
	Machine string
	Commit  pair[string]
	pair[report]
}

// report is what `tarn bench -json` prints.
type report struct {
	Machine  machine   `json:"machine"`
	Sections []section `json:"sections"`
}

type machine struct {
	Go   string  `json:"go"`
	GRPC string  `json:"grpc"`
	Load float64 `json:"load"`
}

type section struct {
	Name  string     `json:"name"`
	Note  string     `json:"note"`
	Cases []testCase `json:"cases"`
}

// testCase is one measurement of all contestants. Ratios are of the first metric.
type testCase struct {
	Title   string   `json:"title"`
	Metrics []metric `json:"metrics"`
	Rows    []result `json:"rows"`
}

type metric struct {
	Key    string `json:"key"`
	Label  string `json:"label"`
	Better string `json:"better"`
}

// result is what a contestant had: Tarn itself, or a peer.
type result struct {
	Name   string             `json:"name"`
	Kind   string             `json:"kind"`
	Values map[string]float64 `json:"values"`
}

const (
	tarn   = "tarn"   // a result's kind
	higher = "higher" // the direction of a metric that is better when it is larger
)

// score is the value of r, larger where it is better; 0 if there is none.
func (c *testCase) score(r result) float64 {
	m := c.Metrics[0]
	v := r.Values[m.Key]
	if m.Better == higher || v == 0 {
		return v
	}
	return 1 / v
}

// find returns the case of a title, or nil.
func (r *report) find(title string) *testCase {
	for _, s := range r.Sections {
		for i := range s.Cases {
			if s.Cases[i].Title == title {
				return &s.Cases[i]
			}
		}
	}
	return nil
}

// named returns c's result of a name.
func (c *testCase) named(name string) result {
	for _, r := range c.Rows {
		if r.Name == name {
			return r
		}
	}
	return result{}
}

// spread is a median and the range around it; without values all are 0.
type spread struct{ Median, Low, High float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Sorted(slices.Values(values))
	return spread{(v[(len(v)-1)/2] + v[len(v)/2]) / 2, v[0], v[len(v)-1]}
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s–%s)", ratio(s.Median), ratio(s.Low), ratio(s.High))
}

// ratio formats a ratio with three digits.
func ratio(r float64) string {
	if r >= 100 {
		return fmt.Sprintf("%.0f", r)
	}
	return fmt.Sprintf("%.3g", r)
}

// row compares what Tarn does in a case. All ratios are above 1 where Tarn, or its later commit, is better.
type row struct {
	section, title, name, metric string
	change                       spread // of Tarn's result, later commit to base, divided by the change of the peers in the same turn
	alone                        spread // the same without that division
	peers                        []against
}

// against is Tarn's result to a peer's.
type against struct {
	peer string
	pair[spread]
}

// limit is the change below which a row fell.
const limit = 0.95

// fell reports whether the median of r's changes is below limit.
func (r row) fell() bool { return r.change.Median < limit }

// compare returns what can be compared, and the names of rows that one of the commits has not.
//
// The peers are the same programs in both measurements of a turn, or nearly: what changes in them is the machine. The median of their
// changes is divided from Tarn's.
func compare(turns []turn) (rows []row, missing []string) {
	last := turns[len(turns)-1].New
	for _, s := range last.Sections {
		for _, c := range s.Cases {
			for _, own := range c.Rows {
				if own.Kind != tarn {
					continue
				}
				r := row{section: s.Name, title: c.Title, name: own.Name, metric: c.Metrics[0].Label}
				if !r.fill(turns, c) {
					missing = append(missing, fmt.Sprintf("%s: %s: %s", s.Name, c.Title, own.Name))
				}
				rows = append(rows, r)
			}
		}
	}
	return rows, missing
}

// fill sets r's figures. It reports whether some turn has the row at both commits.
func (r *row) fill(turns []turn, like testCase) bool {
	var change, alone []float64
	older, newer := map[string][]float64{}, map[string][]float64{}
	for _, t := range turns {
		was, is := t.Old.find(r.title), t.New.find(r.title)
		collect := func(to map[string][]float64, c *testCase) {
			if c == nil {
				return
			}
			for _, p := range c.Rows {
				if own, theirs := c.score(c.named(r.name)), c.score(p); p.Kind != tarn && own > 0 && theirs > 0 {
					to[p.Name] = append(to[p.Name], own/theirs)
				}
			}
		}
		collect(older, was)
		collect(newer, is)
		if was == nil || is == nil {
			continue
		}
		before, after := was.score(was.named(r.name)), is.score(is.named(r.name))
		if before == 0 || after == 0 {
			continue
		}
		var drift []float64
		for _, p := range is.Rows {
			if then, now := was.score(was.named(p.Name)), is.score(p); p.Kind != tarn && then > 0 && now > 0 {
				drift = append(drift, now/then)
			}
		}
		alone = append(alone, after/before)
		if d := spreadOf(drift).Median; d > 0 {
			change = append(change, after/before/d)
		} else {
			change = append(change, after/before)
		}
	}
	r.change, r.alone = spreadOf(change), spreadOf(alone)
	for _, p := range like.Rows {
		if p.Kind != tarn {
			r.peers = append(r.peers, against{p.Name, pair[spread]{spreadOf(older[p.Name]), spreadOf(newer[p.Name])}})
		}
	}
	if len(change) == 0 {
		r.change.Median = 1 // it did not fall
	}
	return len(change) > 0
}

// print writes what the turns show.
func print(w io.Writer, turns []turn) error {
	rows, missing := compare(turns)
	var b strings.Builder
	first, last := turns[0], turns[len(turns)-1]
	fmt.Fprintf(&b, "# %s beside %s\n\n", last.Commit.New, last.Commit.Old)
	fmt.Fprintf(&b, "%s, %s, grpc-go %s, %d turns, %s to %s UTC, load %.1f to %.1f before a run. Medians (lowest–highest) over the turns. All ratios are above 1 where Tarn, or its later commit, is better.\n",
		last.Machine, last.New.Machine.Go, last.New.Machine.GRPC, len(turns), first.At.Format("2006-01-02 15:04"), last.At.Format("15:04"), load(turns, slices.Min), load(turns, slices.Max))
	falls, ahead, behind := 0, 0, []string{}
	var fallen strings.Builder
	for _, r := range slices.SortedStableFunc(slices.Values(rows), func(a, b row) int { return int(1e6 * (a.change.Median - b.change.Median)) }) {
		if !r.fell() {
			continue
		}
		falls++
		sure := ""
		if r.change.High < 1 {
			sure = ", in every turn"
		}
		fmt.Fprintf(&fallen, "- %s: %s, %s: %v%s; alone %v\n", r.section, r.title, r.name, r.change, sure, r.alone)
	}
	for _, r := range rows {
		for _, p := range r.peers {
			switch {
			case p.New.Median >= 1:
				ahead++
			case p.New.Median > 0:
				behind = append(behind, fmt.Sprintf("- %s: %s, %s, against %s: %v\n", r.section, r.title, r.name, p.peer, p.New))
			}
		}
	}
	fmt.Fprintf(&b, "\n**%d of %d rows fell by more than 5 %%.**\n\n%s", falls, len(rows)-len(missing), fallen.String())
	fmt.Fprintf(&b, "\n**Ahead of its peers in %d of %d comparisons, behind in %d.**\n\n%s", ahead, ahead+len(behind), len(behind), strings.Join(behind, ""))
	for _, s := range last.New.Sections {
		if s.Note != "" {
			fmt.Fprintf(&b, "\n%s: %s\n", s.Name, s.Note)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(&b, "\nOf one commit only: %s.\n", strings.Join(missing, "; "))
	}
	b.WriteString("\n| row | of | change | alone | peer | base | now |\n|---|---|---:|---:|---|---:|---:|\n")
	for _, r := range rows {
		head := fmt.Sprintf("| %s: %s, %s | %s | %v | %v |", r.section, r.title, r.name, r.metric, r.change, r.alone)
		if len(r.peers) == 0 {
			fmt.Fprintf(&b, "%s | | |\n", head)
		}
		for _, p := range r.peers {
			fmt.Fprintf(&b, "%s %s | %v | %v |\n", head, p.peer, p.Old, p.New)
			head = "| | | | |"
		}
	}
	b.WriteString("\nchange: Tarn's result at the later commit to that at the base, divided by the median of the peers' changes in the same turn. alone: without that division.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// load is the least or most loaded minute before a run.
func load(turns []turn, of func([]float64) float64) float64 {
	var all []float64
	for _, t := range turns {
		all = append(all, t.Old.Machine.Load, t.New.Machine.Load)
	}
	return of(all)
}
