package rpc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/designpage"
)

// TestEachFileIsOnThePage: docs/design/rpc.md, which says where to look, names each file of this package and of its internal packages, and no
// other.
func TestEachFileIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/design/rpc.md")
	if err != nil {
		t.Skip(err) // a module's copy has no documentation
	}
	internal, err := filepath.Glob("internal/*")
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range internal {
		internal[i] = filepath.ToSlash(path)
	}
	for _, wrong := range designpage.Compare(string(page), ".", internal...) {
		t.Error(wrong)
	}
}
