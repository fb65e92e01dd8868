package tune

import (
	"bytes"
	_ "embed"
	"html/template"

	"github.com/tarn-go/tarn/internal/plot"
	"github.com/tarn-go/tarn/sizing"
)

//go:embed report.html
var reportHTML string

// section is one histogram's part of the report.
type section struct {
	Name              string
	Advice            sizing.Advice
	Rungs             int
	Peak              int64
	Notes             []string
	NowWide, BestWide template.HTML
	NowSlim, BestSlim template.HTML
	Curve             template.HTML
	Go                string
}

// report writes the results as one page that loads nothing.
func report(results []result) ([]byte, error) {
	t, err := template.New("report").Funcs(template.FuncMap{
		"bytes":   func(n int64) string { return plot.Bytes(float64(n)) },
		"count":   func(n uint64) string { return plot.Count(float64(n)) },
		"percent": plot.Percent,
	}).Parse(reportHTML)
	if err != nil {
		return nil, err
	}
	var sections []section
	for _, r := range results {
		sections = append(sections, r.section())
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{"CSS": template.CSS(plot.Style()), "Sections": sections})
	return out.Bytes(), err
}

func (r result) section() section {
	a := r.advice
	draw := func(ladder []int, f plot.Frame, label string) template.HTML {
		peak := max(plot.Highest(r.h, r.h.Classes, f), plot.Highest(r.h, a.Ladder, f))
		return template.HTML(plot.Sizes(r.h, ladder, f, peak, label))
	}
	const now, best = "Sizes asked for, with the present classes", "Sizes asked for, with the best classes"
	s := section{
		Name: r.name, Advice: a, Rungs: len(r.h.Classes), Peak: r.h.Peak, Go: sizing.GoLine(a.Ladder),
		NowWide: draw(r.h.Classes, plot.Wide(), now), NowSlim: draw(r.h.Classes, plot.Narrow(), now),
		BestWide: draw(a.Ladder, plot.Wide(), best), BestSlim: draw(a.Ladder, plot.Narrow(), best),
		Curve: template.HTML(plot.Curve(a.Curve, a.Knee, plot.Mark{Classes: len(r.h.Classes), Share: a.Now.Share()}, plot.Frame{Width: 480, Height: 210})),
	}
	if r.trace != nil {
		s.Notes = r.trace.Notes
	}
	return s
}
