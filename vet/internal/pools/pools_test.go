package pools

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/poolfile"
)

const contract = `
pools:
  - package: p
    release: [put, putBytes]
    retain: [Buf.Hold]
    view: [Buf.Bytes]
    invalidate: [Buf.Next]
`

const source = `package p

type Buf struct {
	b    []byte
	next *Buf
}

func put(b *Buf)
func putBytes(p *[]byte)
func bytes() *[]byte
func (b *Buf) Hold()
func (b *Buf) Bytes() []byte
func (b *Buf) Next()

func ends(b *Buf)              { put(b) }
func field(o *Buf)             { put(o.next) }
func small(b *Buf)             { if len(b.b) < 100 { put(b) } }
func some(b *Buf, all bool)    { if all { put(b) } }
func twice(b *Buf)             { b.Hold(); put(b); put(b) }
func part(b *Buf) []byte       { return b.Bytes()[1:] }
func stop(b *Buf)             { put(b); for { } }

func useAfter(b *Buf) int    { ends(b); return len(b.Bytes()) }
func again(b *Buf)           { defer put(b); put(b) }
func escapes(b *Buf) []byte  { defer put(b); return part(b) }
func stale(b *Buf) byte      { v := b.Bytes(); b.Next(); return v[0] }
func correct(b *Buf) byte    { v := b.Bytes()[0]; put(b); return v }
func grown(n int) {
	p := bytes()
	b := *p
	defer func() {
		*p = b[:0]
		putBytes(p)
	}()
	if cap(b) < n {
		b = make([]byte, 0, n)
	}
}
func close() error
func failed(b *Buf) (*Buf, error) {
	err := close()
	if err != nil {
		put(b)
		return b, err
	}
	return b, nil
}
func succeeds(b *Buf) (*Buf, error) { err := close(); put(b); return b, err }
func never(b, o *Buf)         { put(b); stop(o); b.Next() }
`

// analysed is what is known of each function of the source, and the reports by function.
func analysed(t *testing.T) (known map[string]*Summary, reports map[string][]string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), poolfile.FileName)
	if err := os.WriteFile(name, []byte(contract), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := poolfile.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, info, err := ssautil.BuildPackage(new(types.Config), fset, types.NewPackage("p", ""), []*ast.File{file}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var fns []*ssa.Function
	span := map[string]*ast.FuncDecl{}
	for _, d := range file.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			fn := pkg.Prog.FuncValue(info.Defs[d.Name].(*types.Func))
			fns = append(append(fns, fn), fn.AnonFuncs...)
			span[d.Name.Name] = d
		}
	}
	known, reports = map[string]*Summary{}, map[string][]string{}
	check := Checker{
		Contracts: set,
		Fact:      func(*types.Func, *Summary) bool { return false },
		Name:      func(token.Pos) string { return "" },
		Where:     func(pos, _ token.Pos) string { return fmt.Sprint("line ", fset.Position(pos).Line) },
		Report: func(f Finding) {
			for name, d := range span {
				if d.Pos() <= f.Pos && f.Pos < d.End() {
					reports[name] = append(reports[name], f.Message)
				}
			}
		},
	}
	check.Run(code.Ordered(fns, nil), func(fn *types.Func, sum *Summary) { known[fn.Name()] = sum })
	return known, reports
}

func TestSummaries(t *testing.T) {
	known, _ := analysed(t)
	for name, want := range map[string]string{
		"ends": "[{0 false []}]", "small": "[{0 false []}]", "some": "", "twice": "[{0 false []}]",
	} {
		got := ""
		if sum := known[name]; sum != nil && len(sum.Ends) > 0 {
			got = fmt.Sprint(sum.Ends)
		}
		if got != want {
			t.Errorf("%s ends %q, want %q", name, got, want)
		}
	}
	if sum := known["field"]; sum == nil || len(sum.Ends) != 1 || !sum.Ends[0].Content || len(sum.Ends[0].Path) != 1 || sum.Ends[0].Path[0].N != 1 {
		t.Errorf("field: %v", sum)
	}
	if sum := known["part"]; sum == nil || !slices.Equal(sum.Views, []ViewOf{{0, 0}}) {
		t.Errorf("part: %v", sum)
	}
	var none *Summary
	if none.says() || new(Summary).says() {
		t.Error("an empty summary says something")
	}
}

func TestReports(t *testing.T) {
	_, reports := analysed(t)
	for name, want := range map[string]string{
		"useAfter": "use after release: b was given back by ends at line",
		"again":    "double release: b is given back by put at line",
		"escapes":  "escape: bytes of b are returned, but it was given back by put at line",
		"succeeds": "escape: b is returned, but it was given back by put at line",
		"stale":    "use after release: bytes of b are read, but Buf.Next at line",
	} {
		if len(reports[name]) != 1 || !strings.HasPrefix(reports[name][0], want) {
			t.Errorf("%s: %q", name, reports[name])
		}
		delete(reports, name)
	}
	for name, texts := range reports {
		t.Errorf("%s: %q", name, texts)
	}
}

func TestBindings(t *testing.T) {
	a, b := &Object{id: 1}, &Object{id: 2}
	one := Binding{{Of: a}, {Of: b, Mode: View}}
	if inside := one.with(Inside); inside[0].Mode != Inside || inside[1].Mode != Inside || one[0].Mode != Self {
		t.Errorf("%v", inside)
	}
	if view := one.with(View); view[0].Mode != View || view[1].Mode != View {
		t.Errorf("%v", view)
	}
	if both := one.join(Binding{{Of: a}, {Of: b}}); len(both) != 3 || len(one) != 2 {
		t.Errorf("%v", both)
	}
	var many Binding
	for i := range 3 * most {
		many = many.join(Binding{{Of: &Object{id: i}}})
	}
	if len(many) != most {
		t.Errorf("%d objects", len(many))
	}
}
