// Package npm finds the modules that ci/deps.sh installs from npm, for tests, or leaves the tests out.
package npm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
)

// Modules returns the directory of the modules. root is the path from the test's folder to the repository's root. The test is
// left out when a wanted module is missing.
func Modules(t testing.TB, root string, wanted ...string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "bin", "npm", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range wanted {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			leftout.Skip(t, name+" is not installed (npm, by ci/deps.sh)")
		}
	}
	return dir
}
