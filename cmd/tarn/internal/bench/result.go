package bench

import (
	"encoding/json"
	"io"
	"slices"
	"time"
)

// Report is the result of one run of the command. Its JSON form is what -json prints.
type Report struct {
	Machine  Machine   `json:"machine"`
	Plan     string    `json:"plan"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"` // that the run took
	Sections []Section `json:"sections"`
}

// Section is one of the command's sections.
type Section struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Note  string `json:"note,omitempty"` // why it was left out
	Cases []Case `json:"cases"`
}

// Case is one measurement of all contestants.
type Case struct {
	Title   string   `json:"title"`
	Note    string   `json:"note,omitempty"`
	Metrics []Metric `json:"metrics"` // the first is the one that ratios are taken of
	Rows    []Row    `json:"rows"`    // the contestants
}

// Metric is a column of a Case.
type Metric struct {
	Key    string `json:"key"`
	Label  string `json:"label"`
	Unit   Unit   `json:"unit"`
	Better Better `json:"better"`
}

// Better is the direction in which a metric improves.
type Better string

// The ways a metric can improve.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Unit is the unit in which a value is formatted.
type Unit string

// The units of values.
const (
	Count       Unit = "count"
	Nanoseconds Unit = "ns"
	Bytes       Unit = "bytes"
)

// Row is one contestant's results.
type Row struct {
	Name   string             `json:"name"`
	Kind   Kind               `json:"kind"`
	Values map[string]float64 `json:"values"` // by Metric.Key
	// Ahead is the ratio of Tarn's value of the first metric to this contestant's, inverted where lower is
	// better; above 1 Tarn is better. It is 0 in Tarn's row.
	Ahead float64 `json:"ahead,omitempty"`
	// Turns holds the first metric of each turn, in the order in which they were run.
	Turns []float64 `json:"turns"`
}

// Kind distinguishes Tarn from the others.
type Kind string

// The kinds of contestants.
const (
	Tarn Kind = "tarn"
	Peer Kind = "peer"
)

// compare fills in the ratios of c.
func (c *Case) compare() {
	i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Kind == Tarn })
	if i < 0 {
		return
	}
	m := c.Metrics[0]
	own := c.Rows[i].Values[m.Key]
	for j := range c.Rows {
		r := &c.Rows[j]
		theirs := r.Values[m.Key]
		if r.Kind == Tarn || own == 0 || theirs == 0 {
			continue
		}
		r.Ahead = own / theirs
		if m.Better == Lower {
			r.Ahead = theirs / own
		}
	}
}

func (r *Report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// median returns the middle of v, which it leaves as it is, and 0 if there is none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	mid := len(s) / 2
	if len(s)%2 == 0 {
		return (s[mid-1] + s[mid]) / 2
	}
	return s[mid]
}
