package house_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
)

// TestShellScripts: shellcheck finds nothing in the repository's scripts.
func TestShellScripts(t *testing.T) {
	leftout.Need(t, "shellcheck", "shellcheck")
	list, err := exec.Command("git", "grep", "-lE", `^#!.*\b(ba)?sh$`).Output()
	if err != nil {
		t.Fatal(err)
	}
	scripts := strings.Fields(string(list))
	if len(scripts) < 6 {
		t.Fatalf("only %v", scripts)
	}
	if out, err := exec.Command("shellcheck", scripts...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
