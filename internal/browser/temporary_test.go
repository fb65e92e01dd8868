package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/browser/browsertest"
)

// A browser starts where the path of the directory for temporary files is longer than that of a socket may be.
func TestStartBelowLongPath(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	t.Run("browser", func(t *testing.T) { browsertest.Start(t.Context(), t, nil) })
}
