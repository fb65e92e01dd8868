package house_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	target   = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `)
	eachLine = regexp.MustCompile(`\./ci/each\.sh ([a-z0-9 +-]+)`)
	makes    = regexp.MustCompile(`make ([a-z]+)`)
	runsRow  = regexp.MustCompile("(?m)^\\| `make ([a-z0-9-]+)` \\|.*\\| ([^|]*) \\|$")
)

// TestWhatRunsWhen: the table of docs/design/house.md has every target that `make help` lists, and by what each is run: other targets,
// .ci/run on every push, and the workflows of weeks and releases.
func TestWhatRunsWhen(t *testing.T) {
	text := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	makefile := text("Makefile")
	want := map[string][]string{}
	starts := target.FindAllStringSubmatchIndex(makefile, -1)
	for _, at := range starts {
		if name := makefile[at[2]:at[3]]; name != "help" {
			want[name] = nil
		}
	}
	run := func(by, recipe string) {
		for _, line := range eachLine.FindAllStringSubmatch(recipe, -1) {
			for _, name := range strings.Fields(strings.ReplaceAll(line[1], "+", " ")) {
				if _, ok := want[name]; !ok {
					t.Errorf("%s runs %s, which make help does not list", by, name)
				}
				want[name] = append(want[name], by)
			}
		}
	}
	for i, at := range starts {
		end := len(makefile)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		run("`make "+makefile[at[2]:at[3]]+"`", makefile[at[0]:end])
	}
	for _, by := range []struct{ name, file string }{{"every push", ".ci/run"}, {"every week", ".github/workflows/weekly.yml"}, {"every release", ".github/workflows/release.yml"}} {
		recipe := text(by.file)
		for _, name := range makes.FindAllStringSubmatch(recipe, -1) {
			if rest, ok := want[name[1]]; ok && !slices.Contains(rest, by.name) { // "make" is also a package that is installed
				want[name[1]] = append(rest, by.name)
			}
		}
		run(by.name, recipe)
	}
	for name, by := range want { // .ci/run names the targets of checks, because it makes some of them beside others
		if slices.Contains(by, "`make checks`") && !slices.Contains(by, "every push") {
			t.Errorf("make checks runs %s, .ci/run does not", name)
		}
	}

	got := map[string]string{}
	for _, row := range runsRow.FindAllStringSubmatch(text("docs/design/house.md"), -1) {
		got[row[1]] = row[2]
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		by := strings.Join(want[name], ", ")
		if by == "" {
			by = "by hand"
		}
		if row, ok := got[name]; !ok {
			t.Errorf("the table lacks make %s, run by: %s", name, by)
		} else if row != by {
			t.Errorf("make %s is run by %s; the table says %s", name, by, row)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("the table has make %s, which the Makefile does not list", name)
	}
}

// TestReleaseIsStarted: the release is started by hand: GitHub has no event of a push for tags when more than three are pushed at once, as those of a release are.
func TestReleaseIsStarted(t *testing.T) {
	text, err := os.ReadFile(".github/workflows/release.yml")
	if err != nil || !strings.Contains(string(text), "\non: workflow_dispatch\n") {
		t.Errorf("the workflow is started by something else: %s %v", text, err)
	}
}

// TestActionsArePinned: workflows run actions at fixed commits, whose versions are beside them; a tag may be moved.
func TestActionsArePinned(t *testing.T) {
	names, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(names) < 3 {
		t.Fatal(names, err)
	}
	uses := regexp.MustCompile(`uses: *(.*)`)
	pinned := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v[0-9.]+$`)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range uses.FindAllStringSubmatch(string(text), -1) {
			if !pinned.MatchString(action[1]) {
				t.Errorf("%s uses %s, which is no commit with its version", name, action[1])
			}
		}
	}
}
