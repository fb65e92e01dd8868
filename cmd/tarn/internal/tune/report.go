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
	Name      string
	Advice    sizing.Advice
	Rungs     int
	Peak      int64
	Saved     int64
	Replayed  string
	Notes     []string
	Now, Best template.HTML
	Curve     template.HTML
	Go        string
}

// report writes the results as one page that loads nothing.
func report(results []result) ([]byte, error) {
	t, err := template.New("report").Funcs(template.FuncMap{
		"bytes":   func(n int64) string { return plot.Bytes(float64(n)) },
		"count":   func(n uint64) string { return plot.Count(float64(n)) },
		"percent": plot.Percent,
		"classes": plot.Classes,
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
	marks := plot.Marks{Knee: a.Knee, Now: plot.Mark{Classes: len(r.h.Classes), Share: a.Now.Share()}}
	if !a.Keep {
		marks.Proposed = plot.Mark{Classes: len(a.Ladder), Share: a.Best.Share()}
	}
	s := section{
		Name: r.name, Advice: a, Rungs: len(r.h.Classes), Peak: r.h.Peak, Saved: r.saved(), Replayed: r.replayed(), Go: sizing.GoLine(a.Ladder),
		Now:   template.HTML(plot.SizesOnScreens(r.h, r.h.Classes, a.Ladder, "Sizes asked for, with the present classes")),
		Best:  template.HTML(plot.SizesOnScreens(r.h, a.Ladder, r.h.Classes, "Sizes asked for, with the classes proposed")),
		Curve: template.HTML(plot.CurveOnScreens(a.Curve, marks)),
	}
	if r.trace != nil {
		s.Notes = r.trace.Notes
	}
	return s
}
