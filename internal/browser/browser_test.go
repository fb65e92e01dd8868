package browser_test

import (
	"os"
	"testing"

	"github.com/tarn-go/tarn/internal/browser/browsertest"
)

// A browser leaves nothing in the folder of temporary files: Chromium's own folder there is removed with it.
func TestStart(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Run("browser", func(t *testing.T) { browsertest.Start(t.Context(), t, nil) })
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
