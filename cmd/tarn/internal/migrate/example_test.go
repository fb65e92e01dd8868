package migrate

import (
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// TestExample: the two programs of examples/migrate are made of each other by this command.
func TestExample(t *testing.T) {
	const path = "../../../../examples/migrate/"
	before, after := read(t, path, "before/main.go"), read(t, path, "after/main.go")
	_, comment, _ := strings.Cut(after, "// Command after")
	comment, _, _ = strings.Cut("// Command after"+comment, "package main")
	dir := module(t, "cmd/tarn", map[string]string{"main.go": before})
	status, out := migrate(t, dir)
	_, got, _ := strings.Cut(read(t, dir, "main.go"), "package main")
	if status != cli.OK || comment+"package main"+got != after {
		t.Errorf("status %d, %s\nexamples/migrate/after is to be\n%s", status, out, comment+"package main"+got)
	}
	if status, out := migrate(t, dir, "-back"); status != cli.OK || read(t, dir, "main.go") != before {
		t.Errorf("back: status %d, %s\n%s", status, out, read(t, dir, "main.go"))
	}
}
