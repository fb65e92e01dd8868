package top

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/internal/plot"
)

// view is the data of one drawing. Without before there are no rates, only totals.
type view struct {
	before, now *debug.Snapshot
	width       int // columns; 0: 80
	order       order
	styles      styles
	trouble     string               // why there is no newer snapshot
	history     map[string][]float64 // gets a second, by pool, oldest first
}

// kept is how many rates are kept for the line of a pool.
const kept = 40

// remember adds the newest rates.
func (v *view) remember() {
	for _, p := range v.now.Pools {
		if rate, ok := v.rate(p.Name, func(p debug.Pool) uint64 { return p.Gets }); ok {
			h := append(v.history[p.Name], rate)
			v.history[p.Name] = h[max(len(h)-kept, 0):]
		}
	}
}

// find returns the pool of that name in s.
func find(s *debug.Snapshot, name string) (debug.Pool, bool) {
	if s != nil {
		for _, p := range s.Pools {
			if p.Name == name {
				return p, true
			}
		}
	}
	return debug.Pool{}, false
}

// rate is the growth of a pool's counter in a second.
func (v *view) rate(name string, counter func(debug.Pool) uint64) (float64, bool) {
	old, ok := find(v.before, name)
	now, here := find(v.now, name)
	seconds := 0.0
	if ok && here {
		seconds = v.now.Time.Sub(v.before.Time).Seconds()
	}
	if seconds <= 0 || counter(now) < counter(old) {
		return 0, false
	}
	return float64(counter(now)-counter(old)) / seconds, true
}

// narrowest is the number of columns for which a narrower terminal is drawn, too; it shows the beginnings of the lines.
const narrowest = 20

// columns is how many columns there are.
func (v *view) columns() int {
	if v.width == 0 {
		return 80
	}
	return v.width
}

// draw makes the text of v.
func draw(v view) string {
	v.width = v.columns()
	var b strings.Builder
	title := fmt.Sprintf("tarn top  %s  %s", fetch.Clean(v.now.Program), fetch.Clean(v.now.Go))
	clock := v.now.Time.Format("15:04:05")
	title = cut(title, v.width-len(clock)-1)
	fmt.Fprintf(&b, "%s%*s\n", v.styles.title.Render(title), v.width-lipgloss.Width(title), clock)
	if len(v.now.Pools) > mostWhole {
		v.overview(&b)
	} else {
		for _, p := range v.now.Pools {
			b.WriteString("\n")
			v.pool(&b, p)
		}
	}
	v.calls(&b)
	v.sessions(&b)
	return b.String()
}

// about marks a figure that is estimated from samples.
const about = "≈ "

// pool draws one pool.
func (v *view) pool(b *strings.Builder, p debug.Pool) {
	unseen := size1(p.Pinned)
	if p.Estimated {
		unseen = about + unseen
	}
	name := cut(fetch.Clean(p.Name), v.width)
	v.wrap(b, v.styles.title.Render(name), lipgloss.Width(name), "in use "+size1(p.InUse), "in "+plot.Counted(float64(p.Buffers), "buffer")+",",
		unseen+" of it unseen;", "idle "+size1(p.Idle)+";", "peak "+size1(p.Peak))
	fmt.Fprintf(b, "  %s\n", v.bar(p))
	b.WriteString("  " + cut(v.traffic(p), v.width-2) + "\n")
	if s := p.Sizing; s != nil && s.NotRecorded == "" {
		text := fmt.Sprintf("  waste %s%s with %s", about, plot.Percent(s.Waste), plot.Classes(max(len(p.Classes)-1, 0)))
		if !s.Keep {
			text += fmt.Sprintf("; %s with the best %d", plot.Percent(s.BestWaste), len(s.Ladder))
		}
		b.WriteString(cut(text, v.width) + "\n")
	}
	for _, t := range troubles(p) {
		fmt.Fprintf(b, "  %s\n", v.styles.bad.Render(cut(t, v.width-2)))
	}
	for _, m := range p.Misuses[:min(len(p.Misuses), 3)] {
		fmt.Fprintf(b, "    %s\n", cut(fetch.Clean(m.String()), v.width-4))
	}
	v.classes(b, p)
	v.holders(b, p)
}

// wrap writes a title of the given number of columns and phrases after it, and starts a new line where a
// phrase would exceed the terminal's width.
func (v *view) wrap(b *strings.Builder, title string, at int, phrases ...string) {
	b.WriteString(title)
	for _, phrase := range phrases {
		phrase = cut(phrase, v.width-2)
		n := lipgloss.Width(phrase)
		if at+1+n > v.width {
			b.WriteString("\n ")
			at = 1
		}
		b.WriteString(" " + phrase)
		at += 1 + n
	}
	b.WriteString("\n")
}

// bar shows bytes seen, unseen and idle against the peak.
func (v *view) bar(p debug.Pool) string {
	width := min(v.width-4, 76)
	full := float64(max(p.Peak, p.InUse+p.Idle, 1))
	cells := func(n int64) int { return int(float64(n)/full*float64(width) + 0.5) }
	seen, unseen, idle := cells(p.InUse-p.Pinned), cells(p.Pinned), cells(p.Idle)
	rest := max(width-seen-unseen-idle, 0)
	return v.styles.seen.Render(strings.Repeat("█", seen)) + v.styles.unseen.Render(strings.Repeat("▓", unseen)) + strings.Repeat("░", idle) + strings.Repeat("·", rest)
}

// traffic is the line of rates, or of totals while there is nothing to compare with.
func (v *view) traffic(p debug.Pool) string {
	gets, ok := v.rate(p.Name, func(p debug.Pool) uint64 { return p.Gets })
	if !ok {
		return fmt.Sprintf("%s, %s hits, %s allocated, %s given up", plot.Counted(float64(p.Gets), "get"), plot.Percent(p.HitRate()), plot.Count(float64(p.Misses)), plot.Count(float64(p.Dropped)))
	}
	misses, _ := v.rate(p.Name, func(p debug.Pool) uint64 { return p.Misses })
	hits := 1.0
	if gets > 0 {
		hits = max(1-misses/gets, 0)
	}
	return fmt.Sprintf("%s gets/s, %s hits, %s allocated/s  %s", plot.Count(gets), plot.Percent(hits), plot.Count(misses), spark(v.history[p.Name]))
}

// row is one class in the table.
type row struct {
	numbers debug.Class
	Size    int
	rate    float64
}

func (r row) held() int64 { return (r.numbers.InUse + r.numbers.Idle) * int64(r.Size) }

// column is one column of the table of classes.
type column struct {
	title string
	width int
	least int // the narrowest terminal that shows it, with room for every column whose least is smaller
	text  func(row) string
}

func (v *view) table() []column {
	return []column{
		{"class", 10, 0, func(r row) string {
			if r.Size == 0 {
				return "larger"
			}
			return plot.Bytes(float64(r.Size))
		}},
		{"gets/s", 10, 0, func(r row) string {
			if v.before == nil {
				return "–"
			}
			return plot.Count(r.rate)
		}},
		{"gets", 10, 64, func(r row) string { return plot.Count(float64(r.numbers.Gets)) }},
		{"hits", 7, 54, func(r row) string { return plot.Percent(r.numbers.HitRate()) }},
		{"out", 8, 39, func(r row) string { return plot.Count(float64(r.numbers.InUse)) }},
		{"idle", 8, 47, func(r row) string { return plot.Count(float64(r.numbers.Idle)) }},
		{"held", 11, 31, func(r row) string { return size1(r.held()) }},
	}
}

// classes lists the classes that were asked for.
func (v *view) classes(b *strings.Builder, p debug.Pool) {
	var rows []row
	for i, c := range p.Classes {
		if c.Gets == 0 {
			continue
		}
		rate, _ := v.rate(p.Name, func(q debug.Pool) uint64 { return classGets(q, p.Classes[i].Size) })
		rows = append(rows, row{c, c.Size, rate})
	}
	if len(rows) == 0 {
		return
	}
	v.order.sort(rows)
	head := ""
	for _, c := range v.table() {
		if v.width >= c.least {
			head += fmt.Sprintf("%*s", c.width, c.title)
		}
	}
	b.WriteString(v.styles.dim.Render(head) + "\n")
	for _, r := range rows {
		for _, c := range v.table() {
			if v.width >= c.least {
				fmt.Fprintf(b, "%*s", c.width, c.text(r))
			}
		}
		b.WriteString("\n")
	}
}

func classGets(p debug.Pool, size int) uint64 {
	for _, c := range p.Classes {
		if c.Size == size {
			return c.Gets
		}
	}
	return 0
}

// holders names the holders of the most bytes.
func (v *view) holders(b *strings.Builder, p debug.Pool) {
	if p.Outstanding == nil || len(p.Outstanding.Groups) == 0 {
		return
	}
	b.WriteString(v.styles.dim.Render("  held by") + "\n")
	sampled := ""
	if p.Check == tarn.CheckSampled.String() {
		sampled = about
	}
	for _, g := range p.Outstanding.Groups[:min(len(p.Outstanding.Groups), 3)] {
		figures := fmt.Sprintf("%10s %6s  ", sampled+size1(g.Pinned), sampled+plot.Count(float64(g.Count)))
		age := ", oldest " + g.OldestText()
		room := v.width - lipgloss.Width(figures+age)
		if room < 1 {
			age, room = "", v.width-lipgloss.Width(figures)
		}
		b.WriteString(cut(figures+cutPlace(fetch.Clean(g.Title()), room)+age, v.width) + "\n")
	}
}

// troubles lists the counters that should be 0 and are not.
func troubles(p debug.Pool) []string {
	var list []string
	for _, t := range []struct {
		n    float64
		text string
	}{
		{float64(p.Leaked), plot.Count(float64(p.Leaked)) + " leaked"},
		{float64(p.Misused), plot.Count(float64(p.Misused)) + " misused"},
		{float64(p.Refused), plot.Counted(float64(p.Refused), "foreign slice") + " refused"},
		{float64(p.OverBudget), plot.Counted(float64(p.OverBudget), "get") + " over budget"},
		{float64(p.Waiting), plot.Count(float64(p.Waiting)) + " waiting for the budget"},
	} {
		if t.n > 0 {
			list = append(list, t.text)
		}
	}
	return list
}
