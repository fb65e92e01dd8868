package debug

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"path"
	"time"

	"github.com/tarn-go/tarn/internal/plot"
	"github.com/tarn-go/tarn/sizing"
)

//go:embed assets
var assets embed.FS

// page is the parsed page with its style and script, and the policy that allows those two alone.
type page struct {
	template *template.Template
	css      template.CSS
	js       template.JS
	policy   string

	drawn map[int]figures // by pool: what was drawn last; the handler's lock is held
}

// figures are the still drawings of one recommendation, which change less often than the page.
type figures struct {
	of        *Sizing
	Now, Best template.HTML
	Curve     template.HTML
}

// newPage prepares the page from the embedded files.
func newPage() *page {
	css := plot.Style()
	js := "(() => {" + asset("charts.js") + asset("live.js") + "})();"
	return &page{
		drawn:    map[int]figures{},
		template: template.Must(template.New("page").Funcs(functions()).Funcs(callFunctions()).Parse(asset("page.html"))),
		css:      template.CSS(css),
		js:       template.JS(js),
		// The page may run its own script, use its own style and ask its own handler, nothing else.
		policy: "default-src 'none'; script-src '" + hash(js) + "'; style-src '" + hash(css) + "'; connect-src 'self'; img-src data:; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

func asset(name string) string {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // embedded at build time
	}
	return string(data)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// view is what the template of one pool's page shows.
type view struct {
	*Snapshot
	Title  string
	View   string
	Pool   *Pool
	Sizing *Sizing
	Rungs  int
	Used   []Class // classes that were asked for
	Unused int
	First  template.JS // the live form of the snapshot
	CSS    template.CSS
	JS     template.JS
	Plots  figures
}

func (pg *page) render(s *Snapshot, chosen int) ([]byte, error) {
	p := &s.Pools[chosen]
	first, err := liveOf(s, p.Name)
	if err != nil {
		return nil, err
	}
	v := view{Snapshot: s, Title: p.Name, Pool: p, Sizing: p.Sizing, First: first, CSS: pg.css, JS: pg.js}
	for _, c := range p.Classes {
		switch {
		case c.Gets > 0:
			v.Used = append(v.Used, c)
		case c.Size > 0: // not the gets above the largest class
			v.Unused++
		}
	}
	if p.Sizing != nil && p.Histogram != nil && p.Sizing.NotRecorded == "" {
		v.Rungs = len(p.Histogram.Classes)
		if pg.drawn[chosen].of != p.Sizing {
			pg.drawn[chosen] = draw(*p.Histogram, p.Sizing)
		}
		v.Plots = pg.drawn[chosen]
	}
	var out bytes.Buffer
	err = pg.template.ExecuteTemplate(&out, "pool", v)
	return out.Bytes(), err
}

// liveOf is the initial data of the script: the live form of s and the pool that is shown, "" for all.
func liveOf(s *Snapshot, pool string) (template.JS, error) {
	first, err := json.Marshal(struct {
		*Snapshot
		Pool string `json:"pool"`
	}{s.live(), pool})
	return template.JS(first), err
}

// draw makes the still figures. Both ladders share one axis, so that their waste can be compared.
func draw(h sizing.Histogram, s *Sizing) figures {
	marks := plot.Marks{Knee: s.Knee, Now: plot.Mark{Classes: len(h.Classes), Share: s.Waste}}
	if !s.Keep {
		marks.Proposed = plot.Mark{Classes: len(s.Ladder), Share: s.BestWaste}
	}
	return figures{
		of:    s,
		Now:   template.HTML(plot.SizesOnScreens(h, h.Classes, s.Ladder, "Sizes asked for, with the present classes")),
		Best:  template.HTML(plot.SizesOnScreens(h, s.Ladder, h.Classes, "Sizes asked for, with the recommended classes")),
		Curve: template.HTML(plot.CurveOnScreens(s.Curve, marks)),
	}
}

func functions() template.FuncMap {
	return template.FuncMap{
		"bytes":    func(n any) string { return plot.Bytes(float(n)) },
		"count":    func(n any) string { return plot.Count(float(n)) },
		"counted":  func(n any, noun string) string { return plot.Counted(float(n), noun) },
		"percent":  plot.Percent,
		"share":    func(a, b int64) float64 { return float64(a) / float64(max(b, 1)) },
		"part":     func(a, b uint64) float64 { return float64(a) / float64(max(b, 1)) },
		"times100": func(v float64) string { return fmt.Sprintf("%.1f", 100*v) },
		"classes":  plot.Classes,
		"ages":     func(g Group) template.HTML { return template.HTML(plot.Ages(g.Ages)) }, // the shares of the age bands, side by side
		"troubles": troubles,
		"oversize": func(n int) int { return max(n-1, 0) },
		"held":     func(c Class) int64 { return (c.InUse + c.Idle) * int64(c.Size) },
	}
}

func float(n any) float64 {
	switch n := n.(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	case float64:
		return n
	default:
		return 0
	}
}

// Key identifies a group from one page to the next.
func (g Group) Key() string {
	h := fnv.New64a()
	for _, c := range g.Stack {
		fmt.Fprintln(h, c.Func, c.Line)
	}
	return fmt.Sprintf("%x", h.Sum64())
}

// Title is the function that made the references: the innermost one that is neither Tarn's nor the
// standard library's.
func (g Group) Title() string {
	if g.Place != "" {
		return g.Place
	}
	if len(g.Stack) == 0 {
		return "(unknown)"
	}
	return path.Base(g.Stack[0].Func)
}

// OldestText is the age of the oldest buffer, rounded for reading.
func (g Group) OldestText() string {
	d := time.Duration(g.Oldest * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}
