package bench

import "math"

// A plot is a bar chart of one metric of a Case: a bar for each contestant.
type plot struct {
	Label string
	Hint  string // which way is better, and whether the scale is logarithmic
	Bars  []bar
}

// bar is one contestant's. Lengths are in percent of the room for bars.
type bar struct {
	Name  string
	Value string
	Kind  Kind
	Len   float64
	Dots  []float64 // where the single turns lie
}

// logFrom is the ratio of the largest to the smallest value from which a bar on a linear scale would be
// too short to see.
const logFrom = 40

// plots returns the plots of c: its ratio metric first.
func (c *Case) plots() []plot {
	var out []plot
	for i, m := range c.Metrics {
		var turns func(Row) []float64
		if i == 0 {
			turns = func(r Row) []float64 { return r.Turns }
		} else if !m.plotted() {
			continue
		}
		if p, ok := c.plot(m, turns); ok {
			out = append(out, p)
		}
	}
	return out
}

// plotted reports whether m gets a plot; the others are in the table.
func (m Metric) plotted() bool { return m.Key != "allocs" && m.Key != "p50" }

// plot returns the plot of m, with the turns of each contestant if they are of this metric, and false
// if there is nothing to see: all values are 0.
func (c *Case) plot(m Metric, turns func(Row) []float64) (plot, bool) {
	if turns == nil {
		turns = func(Row) []float64 { return nil }
	}
	p := plot{Label: m.Label, Hint: string(m.Better) + " is better"}
	var values []float64
	for _, r := range c.Rows {
		values = append(values, m.visible(r))
		values = append(values, turns(r)...)
	}
	s := newScale(values, 100)
	if s.max == 0 {
		return plot{}, false
	}
	if s.log {
		p.Hint += "; logarithmic scale"
	} else {
		p.Hint += "; linear scale"
	}
	for _, r := range c.Rows {
		v := m.visible(r)
		b := bar{Name: r.Name, Value: m.Unit.format(v), Kind: r.Kind, Len: s.at(v)}
		for _, t := range turns(r) {
			b.Dots = append(b.Dots, s.at(t))
		}
		p.Bars = append(p.Bars, b)
	}
	return p, true
}

// visible is r's value of m, or 0 where the table prints it as 0: such a value would set the range of a
// logarithmic scale.
func (m Metric) visible(r Row) float64 {
	v := r.Values[m.Key]
	if m.Unit.format(v) == m.Unit.format(0) {
		return 0
	}
	return v
}

// scale maps values to lengths.
type scale struct {
	min, max float64 // of the values above 0
	length   float64 // of max
	log      bool
}

func newScale(values []float64, length float64) scale {
	s := scale{min: math.Inf(1), length: length}
	for _, v := range values {
		s.max = max(s.max, v)
		if v > 0 {
			s.min = min(s.min, v)
		}
	}
	s.log = s.max > 0 && s.max/s.min >= logFrom
	return s
}

// at returns the length of v. On a logarithmic scale the smallest value has a tenth of the largest's.
func (s scale) at(v float64) float64 {
	switch {
	case v <= 0:
		return 0
	case s.log:
		return s.length * (0.1 + 0.9*math.Log(v/s.min)/math.Log(s.max/s.min))
	default:
		return s.length * v / s.max
	}
}
