package debug

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"github.com/tarn-go/tarn/internal/plot"
)

// Bounds beyond which the overview calls a pool's state trouble.
const (
	nearBudget = 0.9   // of the budget in use
	lowHitRate = 0.5   // of the gets, after enoughGets
	highWaste  = 0.25  // of the slab bytes, where another ladder would waste less
	enoughGets = 10000 // before the hit rate and the waste count
)

// level is the severity of a trouble; it is also its class in the style sheet.
type level string

const (
	bad  level = "bad"  // a defect of the program
	warn level = "warn" // a setting that does not fit the load
)

// trouble is one thing that the overview says of a pool.
type trouble struct {
	Level level
	Text  string
}

// troubles lists what is wrong with the pool, the worst first.
func troubles(p Pool) []trouble {
	var list []trouble
	add := func(is bool, l level, format string, args ...any) {
		if is {
			list = append(list, trouble{l, fmt.Sprintf(format, args...)})
		}
	}
	add(p.Leaked > 0, bad, "%s leaked", plot.Count(float64(p.Leaked)))
	add(p.Misused > 0, bad, "%s", plot.Counted(float64(p.Misused), "misuse"))
	add(p.Refused > 0, bad, "%s refused", plot.Counted(float64(p.Refused), "foreign slice"))
	add(p.Waiting > 0, warn, "%d waiting for the budget", p.Waiting)
	add(p.OverBudget > 0, warn, "%s over budget", plot.Counted(float64(p.OverBudget), "get"))
	if p.Budget > 0 {
		used := float64(p.InUse) / float64(p.Budget)
		add(used >= nearBudget, warn, "%s of the budget in use", plot.Percent(used))
	}
	if p.Gets >= enoughGets {
		add(p.HitRate() < lowHitRate, warn, "%s hits", plot.Percent(p.HitRate()))
		if s := p.Sizing; s != nil && s.NotRecorded == "" && !s.Keep {
			add(s.Waste > highWaste, warn, "wastes %s", plot.Percent(s.Waste))
		}
	}
	return list
}

// severity orders pools: those with defects first, then by the number of things that are wrong.
func severity(p Pool) int {
	n := 0
	for _, t := range troubles(p) {
		if t.Level == bad {
			n += 100
		}
		n++
	}
	return n
}

// all is what the template of the overview shows.
type all struct {
	*Snapshot
	Title       string
	View        string
	Sorted      []Pool
	By          order
	InUse, Idle int64
	First       template.JS
	CSS         template.CSS
	JS          template.JS
}

// order is what pools are sorted by, in the overview: the name of a column.
type order string

// orders compare pools for each order, so that the first is shown first.
var orders = map[order]func(a, b Pool) int{
	"trouble": func(a, b Pool) int { return severity(b) - severity(a) },
	"name":    func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) },
	"use":     func(a, b Pool) int { return cmp.Compare(b.InUse, a.InUse) },
	"idle":    func(a, b Pool) int { return cmp.Compare(b.Idle, a.Idle) },
	"peak":    func(a, b Pool) int { return cmp.Compare(b.Peak, a.Peak) },
	"budget":  func(a, b Pool) int { return cmp.Compare(b.budgetUsed(), a.budgetUsed()) },
	"gets":    func(a, b Pool) int { return cmp.Compare(b.Gets, a.Gets) },
	"hits":    func(a, b Pool) int { return cmp.Compare(a.HitRate(), b.HitRate()) },
	"waste":   func(a, b Pool) int { return cmp.Compare(b.waste(), a.waste()) },
}

// orderOf is the order that a query asks for; that of trouble, if it asks for none that there is.
func orderOf(query string) order {
	if orders[order(query)] == nil {
		return "trouble"
	}
	return order(query)
}

// column is one of the overview's columns, by which it can be sorted.
type column struct {
	Order  order
	Label  string
	Class  string
	Sorted string // the value of aria-sort; "": it is not sorted by this one
}

// Columns are the overview's.
func (v all) Columns() []column {
	list := []column{{"name", "pool", "", ""}, {"trouble", "trouble", "", ""}, {"use", "in use", "n", ""}, {"idle", "idle", "n wide", ""}, {"peak", "peak", "n wide", ""},
		{"budget", "budget", "n wide", ""}, {"gets", "gets/s", "n", ""}, {"hits", "hits", "n wide", ""}, {"waste", "waste", "n wide", ""}}
	for i := range list {
		if list[i].Order == v.By {
			list[i].Sorted = "descending"
			if v.By == "name" || v.By == "hits" {
				list[i].Sorted = "ascending"
			}
		}
	}
	return list
}

// budgetUsed is the share of the budget that is in use; 0 without a budget.
func (p Pool) budgetUsed() float64 {
	if p.Budget == 0 {
		return 0
	}
	return float64(p.InUse) / float64(p.Budget)
}

// waste is the share of slab bytes that was not asked for; 0 where that is not known.
func (p Pool) waste() float64 {
	if p.Sizing == nil {
		return 0
	}
	return p.Sizing.Waste
}

// overview renders the page of all pools in an order.
func (pg *page) overview(s *Snapshot, by order) ([]byte, error) {
	first, err := liveOf(s, "")
	if err != nil {
		return nil, err
	}
	v := all{Snapshot: s, Title: "all pools", Sorted: slices.Clone(s.Pools), By: by, First: first, CSS: pg.css, JS: pg.js}
	for _, p := range s.Pools {
		v.InUse += p.InUse
		v.Idle += p.Idle
	}
	slices.SortStableFunc(v.Sorted, orders[by])
	var out bytes.Buffer
	err = pg.template.ExecuteTemplate(&out, "overview", v)
	return out.Bytes(), err
}
