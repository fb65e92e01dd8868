package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/browser/browsertest"
)

// The report can be read in the smallest window of a phone, and axe-core finds nothing in it.
func TestReportInABrowser(t *testing.T) {
	ns := func(title string, tarn, peer float64) Case {
		c := Case{
			Title: title, Metrics: []Metric{{"ns", "time of a call", Nanoseconds, Lower}, {"ops", "calls a second", Count, Higher}},
			Rows: []Row{
				{Name: "tarn", Kind: Tarn, Turns: []float64{tarn, 2 * tarn}, Values: map[string]float64{"ns": tarn, "ops": 1e9 / tarn}},
				{Name: "a contestant with a long name", Kind: Peer, Turns: []float64{peer, 1.1 * peer}, Values: map[string]float64{"ns": peer, "ops": 1e9 / peer}},
			},
		}
		c.compare()
		return c
	}
	report := &Report{Started: time.Unix(1e9, 0), Sections: []Section{{
		Title: "A section", Note: "A note.", Cases: []Case{ns("A case", 4305, 14500), ns("Another, which is lost", 3e6, 1e6), ns("One on a logarithmic scale", 20, 3e4)},
	}}}
	name := filepath.Join(t.TempDir(), "report.html")
	file, err := os.Create(name)
	must(t, err)
	must(t, report.writeHTML(file))
	must(t, file.Close())

	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	b := browsertest.Start(ctx, t, nil)
	axe := browsertest.Axe(t, "../../../..")
	for _, width := range []int{320, 768} {
		must(t, b.Size(ctx, width, 900, 1))
		must(t, b.Open(ctx, "file://"+name))
		small, err := b.SmallText(ctx, 10.9) // 11, but for rounding
		must(t, err)
		for _, text := range small {
			t.Errorf("in a window of %d pixels: %s", width, text)
		}
		var page int
		must(t, b.Eval(ctx, `document.documentElement.scrollWidth`, &page))
		if page > width {
			t.Errorf("in a window of %d pixels the page has %d", width, page)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		must(t, b.Scheme(ctx, scheme))
		found, err := b.Violations(ctx, axe)
		must(t, err)
		for _, f := range found {
			t.Errorf("in %s: %s", scheme, f)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
