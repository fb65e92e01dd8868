package h2

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/designpage"
)

// TestFieldsHaveOwners: the fields of the sender, the scheduler and the lifetime are used in the files of their owners alone,
// and deadlines.go alone sets deadlines and makes timers; others call methods. In the sender's files are its methods, and none of Conn.
func TestFieldsHaveOwners(t *testing.T) {
	fields := func(x reflect.Type) (names []string) {
		for i := range x.NumField() {
			names = append(names, x.Field(i).Name)
		}
		return names
	}
	owners := map[string]struct {
		fields []string
		files  []string
	}{
		"send":     {fields(reflect.TypeFor[sender]()), []string{"sender.go", "gather.go"}},
		"ready":    {fields(reflect.TypeFor[scheduler]()), []string{"scheduler.go"}},
		"inflow":   {append(fields(reflect.TypeFor[inflow]()), fields(reflect.TypeFor[streamInflow]())...), []string{"inflow.go", "windows.go"}},
		"lifetime": {slices.Concat(fields(reflect.TypeFor[lifetime]()), fields(reflect.TypeFor[silence]()), fields(reflect.TypeFor[unused]())), []string{"lifetime.go", "deadlines.go"}},
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
			if of := owners["send"].files; ok && slices.Contains(of, name) != (star.X.(*ast.Ident).Name == "sender") {
				t.Errorf("%v: %s: the methods of the sender, and no others, are in %v", set.Position(fn.Pos()), fn.Name.Name, of)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if u, ok := n.(*ast.UnaryExpr); ok && u.Op == token.AND {
				if of, ok := u.X.(*ast.SelectorExpr); ok {
					if o, ok := owners[of.Sel.Name]; ok && !slices.Contains(o.files, name) {
						t.Errorf("%v: the address of %s is taken outside of %v", set.Position(u.Pos()), of.Sel.Name, o.files)
					}
				}
			}
			field, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if d := field.Sel.Name; slices.Contains([]string{"SetReadDeadline", "SetDeadline", "AfterFunc", "NewTimer"}, d) && name != "deadlines.go" {
				t.Errorf("%v: %s is called outside of deadlines.go", set.Position(field.Pos()), d)
			}
			of, ok := field.X.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if o, ok := owners[of.Sel.Name]; ok && slices.Contains(o.fields, field.Sel.Name) && !slices.Contains(o.files, name) {
				t.Errorf("%v: %s.%s is used outside of %v", set.Position(field.Pos()), of.Sel.Name, field.Sel.Name, o.files)
			}
			return true
		})
	}
}

// TestLockIsKept: functions that are called with Conn.mu held keep it to their end, except those of which docs/design/h2.md says what is read
// again afterwards. They are told by an Unlock that precedes every Lock.
func TestLockIsKept(t *testing.T) {
	givesUp := []string{"flush", "letOthersQueue", "nextBatch", "waitSent", "waitOpen"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && unlocksFirst(fn) {
				found = append(found, fn.Name.Name)
			}
		}
	}
	slices.Sort(found)
	slices.Sort(givesUp)
	if !slices.Equal(found, givesUp) {
		t.Errorf("the lock is given up by %v, not by %v", found, givesUp)
	}
}

// unlocksFirst reports whether fn unlocks a mutex named mu before it locks one.
func unlocksFirst(fn *ast.FuncDecl) (first bool) {
	seen := false
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.SelectorExpr)
		if !ok || seen {
			return !seen
		}
		of, ok := call.X.(*ast.SelectorExpr)
		switch name := call.Sel.Name; {
		case name == "lock": // Run's way to lock it
		case ok && of.Sel.Name == "mu" && (name == "Lock" || name == "Unlock"):
			first = name == "Unlock"
		default:
			return true
		}
		seen = true
		return false
	})
	return first
}

// TestEachFileIsOnThePage: docs/design/h2.md, which says where to look, names each file of this package and no other.
func TestEachFileIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/design/h2.md")
	if err != nil {
		t.Skip(err) // a module's copy may have no documentation
	}
	text, _, _ := strings.Cut(string(page), "\n## Package h2http\n")
	for _, wrong := range designpage.Compare(text, ".") {
		t.Error(wrong)
	}
}
