package h2http

import (
	"os"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/designpage"
)

// TestEachFileIsOnThePage: the section of docs/design/h2.md on this package names each file of it and no other.
func TestEachFileIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/design/h2.md")
	if err != nil {
		t.Skip(err) // a module's copy may have no documentation
	}
	_, text, _ := strings.Cut(string(page), "\n## Package h2http\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, wrong := range designpage.Compare(text, ".") {
		t.Error(wrong)
	}
}
