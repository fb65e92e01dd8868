// Package browsertest gives tests a browser and the accessibility checker, or leaves them out.
package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/browser"
	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/npm"
)

// Start starts a browser that ends with ctx, at the latest with the test. Without Chromium the test is left out. onEvent
// is as browser.Start has it.
func Start(ctx context.Context, t testing.TB, onEvent func(method string, params json.RawMessage)) *browser.Browser {
	t.Helper()
	if _, err := browser.Find(); errors.Is(err, browser.ErrMissing) {
		leftout.Skip(t, "chromium is not installed (Debian: chromium)")
	}
	b, err := browser.Start(ctx, t.TempDir(), onEvent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Axe returns the script of axe-core, which ci/deps.sh puts below the repository's root. root is the path from the test's
// folder to it. Without the script the test is left out.
func Axe(t testing.TB, root string) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(npm.Modules(t, root, "axe-core"), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}
