package tune

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/browser"
	"github.com/tarn-go/tarn/internal/leftout"
)

// axe is where ci/deps.sh puts the accessibility checker.
const axe = "../../../../bin/npm/node_modules/axe-core/axe.min.js"

// The report can be read in the smallest window of a phone, and axe-core finds nothing in it.
func TestReportInABrowser(t *testing.T) {
	if _, err := browser.Find(); errors.Is(err, browser.ErrMissing) {
		leftout.Skip(t, "chromium is not installed (Debian: chromium)")
	}
	script, err := os.ReadFile(axe)
	if errors.Is(err, os.ErrNotExist) {
		leftout.Skip(t, "axe-core is not installed (npm: axe-core, by ci/deps.sh)")
	}
	must(t, err)
	name := filepath.Join(t.TempDir(), "report.html")
	if status, _, errs := tune(t, sample(t), "-o", name, "-"); status != cli.OK {
		t.Fatal(errs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	b, err := browser.Start(ctx, t.TempDir(), nil)
	must(t, err)
	defer b.Close()
	must(t, b.Size(ctx, 320, 900, 1))
	must(t, b.Open(ctx, "file://"+name))
	var complete bool
	must(t, b.Eval(ctx, `new Promise(done => document.readyState == "complete" ? done(true) : addEventListener("load", () => done(true)))`, &complete))
	small, err := b.SmallText(ctx, 10.9) // 11, but for rounding
	must(t, err)
	found, err := b.Violations(ctx, string(script))
	must(t, err)
	for _, f := range append(small, found...) {
		t.Error(f)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
