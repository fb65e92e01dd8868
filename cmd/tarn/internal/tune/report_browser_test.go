package tune

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/browser/browsertest"
)

// The report can be read in the smallest window of a phone, and axe-core finds nothing in it.
func TestReportInABrowser(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.html")
	if status, _, errs := tune(t, sample(t), "-o", name, "-"); status != cli.OK {
		t.Fatal(errs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	b := browsertest.Start(ctx, t, nil)
	axe := browsertest.Axe(t, "../../../..")
	must(t, b.Size(ctx, 320, 900, 1))
	must(t, b.Open(ctx, "file://"+name))
	small, err := b.SmallText(ctx, 10.9) // 11, but for rounding
	must(t, err)
	found, err := b.Violations(ctx, axe)
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
