package smb

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestOperationTable compares the table in docs/reference/smb.md with the rules. With TARN_UPDATE=1 it writes the table.
func TestOperationTable(t *testing.T) {
	const page, begin, end = "../docs/reference/smb.md", "<!-- operations: by the tests of package smb with TARN_UPDATE=1 -->\n", "<!-- end of operations -->\n"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(b), begin)
	have, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatal("the page has no place for the table")
	}
	want := operationTable()
	if have == want {
		return
	}
	if os.Getenv("TARN_UPDATE") == "" {
		t.Fatalf("the table is not current; it would be\n%s", want)
	}
	if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func operationTable() string {
	var b strings.Builder
	b.WriteString("| operation | after a loss | links and referrals | changes | undone if the context ends | waits for changes that were given up |\n|---|---|---|---|---|---|\n")
	for k := range opKinds {
		r := k.rule()
		repeat := [...]string{repeated: "repeated", sentOnce: "**not repeated**"}[r.repeat]
		links := [...]string{followed: "followed", notFollowed: "not followed", noName: ""}[r.links]
		order := [...]string{ordered: "", unordered: "no"}[r.order]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", r.methods, repeat, links, r.changes, r.undone, order)
	}
	return strings.ReplaceAll(b.String(), "|  ", "| ")
}

// TestOperationRules holds that the columns of the table agree with each other.
func TestOperationRules(t *testing.T) {
	for k := range opKinds {
		r := k.rule()
		if r.methods == "" {
			t.Errorf("kind %d has no row", k)
		}
		if opens := r.changes.has(opensFiles); opens != (r.undone == undoOpen) {
			t.Errorf("%s: a file that stays open must be closed when its caller has gone, and no other", r.methods)
		}
		if r.undone == undoCreate && !(r.changes.has(changesNames) && r.repeat == sentOnce) {
			t.Errorf("%s: only a file that the operation itself has created may be removed", r.methods)
		}
		if locks := r.changes.has(changesLocks); locks && r.repeat != sentOnce {
			t.Errorf("%s: a lock may not be repeated", r.methods)
		}
	}
}
