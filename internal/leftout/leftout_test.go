package leftout

import (
	"os"
	"path/filepath"
	"testing"
)

// fake is a test whose end is recorded.
type fake struct {
	testing.TB
	skipped, failed bool
}

func (f *fake) Helper()               {}
func (f *fake) Name() string          { return "TestFake" }
func (f *fake) Log(...any)            {}
func (f *fake) Skip(...any)           { f.skipped = true }
func (f *fake) Fatal(...any)          { f.failed = true }
func (f *fake) Fatalf(string, ...any) { f.failed = true }

func TestMissingProgramIsListed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	t.Setenv("TARN_LEFT_OUT", file)
	t.Setenv("CI", "")
	f := &fake{TB: t}
	Need(f, "no-such-package", "go", "no-such-program")
	Need(&fake{TB: t}, "nothing", "go") // there is a go, or this test would not run
	if !f.skipped || f.failed {
		t.Errorf("skipped %v, failed %v", f.skipped, f.failed)
	}
	got, err := os.ReadFile(file)
	want := "TestFake: no-such-program is not installed (Debian: no-such-package)\n"
	if err != nil || string(got) != want {
		t.Errorf("listed %q, %v; want %q", got, err, want)
	}
}

func TestNote(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	t.Setenv("TARN_LEFT_OUT", file)
	t.Setenv("CI", "true") // where a test that runs may be noted
	f := &fake{TB: t}
	Note(f, "passed\n  by itself\n")
	if f.skipped || f.failed {
		t.Errorf("skipped %v, failed %v", f.skipped, f.failed)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "TestFake: passed by itself\n" {
		t.Errorf("listed %q, %v", got, err)
	}
}

func TestMissingProgramFailsInCI(t *testing.T) {
	t.Setenv("CI", "true")
	t.Setenv("TARN_LEFT_OUT", filepath.Join(t.TempDir(), "list")) // not the list of this run
	f := &fake{TB: t}
	Need(f, "no-such-package", "no-such-program")
	if !f.failed {
		t.Error("a missing program did not fail the test")
	}
}

func TestListThatCannotBeWrittenFails(t *testing.T) {
	t.Setenv("TARN_LEFT_OUT", filepath.Join(t.TempDir(), "no", "folder"))
	t.Setenv("CI", "")
	f := &fake{TB: t}
	Skip(f, "a reason")
	if !f.failed {
		t.Error("a test was left out without being listed")
	}
}
