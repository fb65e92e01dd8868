package bench

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/tarn-go/tarn/internal/plot"
)

// comparison is one line of the summary: a case and a contestant of it.
type comparison struct {
	Section, Case, Peer string
	Ahead               float64 // the ratio as in Row.Ahead; the median
	Low, High           float64 // over the turns, each compared with the contestant's turn next to it
	Metric              Metric  // what is compared
}

// Behind reports whether the contestant did better than Tarn.
func (c comparison) Behind() bool { return c.Ahead < 1 }

// Text is Tarn's value divided by the contestant's, and its range.
func (c comparison) Text() string {
	median, low, high := c.Metric.quotient(c.Ahead), c.Metric.quotient(c.Low), c.Metric.quotient(c.High)
	if low == high {
		return times(median) + "×"
	}
	return fmt.Sprintf("%s× (%s–%s)", times(median), times(min(low, high)), times(max(low, high)))
}

// quotient is Tarn's value divided by the contestant's where Tarn is ahead by ahead.
func (m Metric) quotient(ahead float64) float64 {
	if m.Better == Lower {
		return 1 / ahead
	}
	return ahead
}

// times formats a ratio with about three digits: further digits differ from run to run.
func times(ratio float64) string {
	switch {
	case ratio >= 100:
		return fmt.Sprintf("%.0f", ratio)
	case ratio >= 10:
		return fmt.Sprintf("%.1f", ratio)
	case ratio < 0.1:
		return fmt.Sprintf("%.3f", ratio)
	default:
		return fmt.Sprintf("%.2f", ratio)
	}
}

// comparisons lists every contestant of every case, in the report's order.
func (r *Report) comparisons() []comparison {
	var out []comparison
	for _, s := range r.Sections {
		for _, c := range s.Cases {
			own := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Kind == Tarn })
			if own < 0 {
				continue
			}
			for _, row := range c.Rows {
				if row.Kind == Tarn || row.Ahead == 0 {
					continue
				}
				low, high := turnRatios(c.Rows[own].Turns, row.Turns, c.Metrics[0].Better)
				if low == 0 {
					low, high = row.Ahead, row.Ahead
				}
				out = append(out, comparison{s.Title, c.Title, row.Name, row.Ahead, min(low, row.Ahead), max(high, row.Ahead), c.Metrics[0]})
			}
		}
	}
	return out
}

// turnRatios returns the least and the largest ratio of turns that ran side by side; 0 without turns.
func turnRatios(ours, theirs []float64, better Better) (low, high float64) {
	for i := range min(len(ours), len(theirs)) {
		a, b := ours[i], theirs[i]
		if a <= 0 || b <= 0 {
			continue
		}
		ratio := a / b
		if better == Lower {
			ratio = b / a
		}
		if low == 0 || ratio < low {
			low = ratio
		}
		high = max(high, ratio)
	}
	return low, high
}

// summary is all comparisons, and how many of them Tarn wins and loses.
type summary struct {
	Rows          []comparison
	Ahead, Behind int
}

func (r *Report) summary() summary {
	s := summary{Rows: r.comparisons()}
	for _, c := range s.Rows {
		if c.Behind() {
			s.Behind++
		} else {
			s.Ahead++
		}
	}
	return s
}

// Chart draws the comparisons.
func (s summary) Chart() template.HTML {
	var ratios []plot.Ratio
	for _, c := range s.Rows {
		ratios = append(ratios, plot.Ratio{Group: c.Section, Name: c.Case, Against: c.Peer, Text: c.Text(), Median: c.Ahead, Low: c.Low, High: c.High})
	}
	return template.HTML(plot.Ratios(ratios))
}

// writeSummary writes the content of the chart as text.
func (r *Report) writeSummary(b *strings.Builder) {
	s := r.summary()
	if len(s.Rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\nTarn is ahead in %d of %d comparisons.", s.Ahead, len(s.Rows))
	if s.Behind > 0 {
		b.WriteString(" It is behind in:\n")
		for _, c := range s.Rows {
			if c.Behind() {
				fmt.Fprintf(b, "  %s, against %s: %s the %s\n", c.Case, c.Peer, c.Text(), c.Metric.Label)
			}
		}
		return
	}
	b.WriteString("\n")
}
