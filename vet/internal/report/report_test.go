package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
)

const source = `package p

func plain(q chan int) {
	a, b := two()
	var c, d = one(), one()
	e := <-q
	one()
	for f := range q {
		print(a, b, c, d, e, f)
	}
	g := one().(int)
	s.t(func() { one() })(g)
}

//tarn:allow leak,double it is the point
func allowed() {
	one()
}

func lines() {
	one() //tarn:owned another one frees it
	one()
	one()
	one() //tarn:allow all the test is about it
	//tarn:allow write nothing is written here
	//tarn:allow wrong a word that is no kind
	//tarn:owned
	one()
}
`

// parsed is the source, and a pass that collects what is reported.
func parsed(t *testing.T, text string) (pass *analysis.Pass, found *[]analysis.Diagnostic) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found = new([]analysis.Diagnostic)
	return &analysis.Pass{Fset: fset, Files: []*ast.File{file}, Report: func(d analysis.Diagnostic) { *found = append(*found, d) }}, found
}

// at is the position of the nth line.
func at(pass *analysis.Pass, line int) token.Pos {
	return pass.Fset.File(pass.Files[0].Package).LineStart(line)
}

func TestEachFindingOnce(t *testing.T) {
	pass, found := parsed(t, source)
	r := New(pass)
	var many []analysis.RelatedInformation
	for range 3 * maxRelated {
		many = append(many, analysis.RelatedInformation{Pos: at(pass, 4)})
	}
	for range 2 {
		r.Emit(analysis.Diagnostic{Pos: at(pass, 4), Category: string(Leak), Related: many}, token.NoPos)
		r.Emit(analysis.Diagnostic{Pos: at(pass, 4), Category: string(Use)}, token.NoPos)
	}
	if len(*found) != 2 || len((*found)[0].Related) != maxRelated {
		t.Errorf("%v", *found)
	}
	if r.Line(at(pass, 4)) != 4 || r.Where(at(pass, 4), at(pass, 5)) != "line 4" {
		t.Error("lines")
	}
	other := pass.Fset.AddFile("/a/other.go", -1, 10)
	if got := r.Where(at(pass, 4), other.Pos(0)); got != "p.go:4" {
		t.Errorf("a line of another file is %s", got)
	}
}

func TestDirectives(t *testing.T) {
	pass, found := parsed(t, source)
	r := New(pass)
	for _, f := range []struct {
		line    int
		kind    Kind
		taken   int // another line, where the reference was taken
		allowed bool
	}{
		{17, Leak, 0, true}, {17, Double, 0, true}, {17, Use, 0, false}, // of the function
		{21, Leak, 0, true}, {22, Leak, 0, true}, {23, Leak, 0, false}, {23, Double, 21, false}, {23, Use, 21, false}, // of a line and the next
		{24, Use, 0, true}, {24, Leak, 0, true},
		{20, Leak, 21, true}, // where it was taken
	} {
		before := len(*found)
		taken := token.NoPos
		if f.taken > 0 {
			taken = at(pass, f.taken)
		}
		// Each finding has a position of its own.
		r.Emit(analysis.Diagnostic{Pos: at(pass, f.line) + token.Pos(before%2), Category: string(f.kind)}, taken)
		if (len(*found) == before) != f.allowed {
			t.Errorf("line %d, %s: allowed %v", f.line, f.kind, !f.allowed)
		}
	}
	*found = nil
	r.Unused()
	var texts []string
	for _, d := range *found {
		if d.Category != string(Directive) {
			t.Errorf("%v", d)
		}
		texts = append(texts, d.Message)
	}
	if len(texts) != 3 || !strings.Contains(texts[0], "would allow") || !strings.Contains(texts[1], `"wrong"`) || !strings.Contains(texts[2], "needs a reason") {
		t.Errorf("%q", texts)
	}
	if n := len(Directives(pass.Files[0])); n != 6 {
		t.Errorf("%d directives", n)
	}
}

// Before the package clause, a directive counts for the file.
func TestDirectiveOfAFile(t *testing.T) {
	pass, found := parsed(t, "//tarn:allow use a file of examples\n\npackage p\n\nfunc f() {\n\tone()\n}\n")
	r := New(pass)
	r.Emit(analysis.Diagnostic{Pos: at(pass, 6), Category: string(Use)}, token.NoPos)
	if r.Unused(); len(*found) > 0 {
		t.Errorf("%v", *found)
	}
}

func TestSites(t *testing.T) {
	pass, _ := parsed(t, source)
	type where struct {
		text, to string
		whole    bool // the statement is this call
	}
	got := map[int][]where{}
	for pos, s := range Index(pass.Files) {
		var to []string
		for _, x := range s.LHS {
			to = append(to, types.ExprString(x))
		}
		line := pass.Fset.Position(pos).Line
		got[line] = append(got[line], where{s.Text(), strings.Join(to, " "), s.Stmt != nil})
	}
	for line, want := range map[int]where{
		4: {"two", "a b", true}, 6: {"<-q", "e", true}, 7: {"one", "", true}, 8: {"<-q", "f", true}, 11: {"one", "g", true},
	} {
		if !slices.Contains(got[line], want) {
			t.Errorf("line %d: %v, want %v", line, got[line], want)
		}
	}
	for _, want := range []where{{"one", "c", false}, {"one", "d", false}} {
		if !slices.Contains(got[5], want) {
			t.Errorf("line 5: %v, want %v", got[5], want)
		}
	}
	if !slices.ContainsFunc(got[12], func(w where) bool { return w.text == "s.t" }) {
		t.Errorf("line 12: %v", got[12])
	}
	literal := &ast.CallExpr{Fun: &ast.FuncLit{Type: &ast.FuncType{}}}
	if text := FunText(literal); text != "the function literal" {
		t.Error(text)
	}
	long := &ast.CallExpr{Fun: &ast.SelectorExpr{X: ast.NewIdent(strings.Repeat("x", 50)), Sel: ast.NewIdent("Get")}}
	if text := FunText(long); text != "….Get" {
		t.Error(text)
	}
}
