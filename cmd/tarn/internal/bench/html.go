package bench

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"

	"github.com/tarn-go/tarn/internal/plot"
)

//go:embed report.tmpl
var reportTemplate string

// page is the template's data.
type page struct {
	*Report
	CSS  template.CSS
	JSON template.JS // the report itself, for readers who want the figures
}

// writeHTML writes the report as one page that has no scripts and loads nothing.
func (r *Report) writeHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"charts":   func(c Case) []chart { return c.charts() },
		"value":    func(c Case, r Row, m Metric) string { return m.Unit.format(r.Values[m.Key]) },
		"summary":  func(r *Report) summary { return r.summary() },
		"quotient": func(c Case, r Row) string { return c.quotientText(&r) },
	}).Parse(reportTemplate)
	if err != nil {
		return err
	}
	// json.Marshal escapes <, > and &, so the text cannot end the element it stands in.
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, page{r, template.CSS(plot.Style() + plot.BarStyle()), template.JS(data)}); err != nil {
		return err
	}
	_, err = b.WriteTo(w)
	return err
}
