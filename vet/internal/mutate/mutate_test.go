package mutate

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/vet"
	"github.com/tarn-go/tarn/vet/internal/driver"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// At least leastFound of the mistakes that can be planted in the repository's own code are found. Those with
// references in fields and elements, which other functions may free, are also counted separately. The short
// form plants one in shortEvery, the same ones in each run, and allows for the error of the sample;
// TARN_LONG=1 plants all.
const (
	leastFound       = 0.90
	leastInVariables = 0.94
	leastCount       = 500
	// Of the reports at most mostFalse say something else than what was done.
	mostFalse = 0.01
)

// noMistake lists functions in which a planted mistake has no effect, and why.
var noMistake = map[string]string{
	"TestZeroBuffer": "freeing the zero Buffer does nothing, however often",
}

// A superfluous Free frees nothing in the tests that run it, although the analyser cannot see that: what it would free has been taken or freed
// before, or is freed at the end. These tests end with an error if a reference is left.
type superfluous struct {
	file, in, what string
	tests          string // which run it
}

type superfluousFrees []superfluous

// withoutEffect are Frees whose removal is no mistake. TestSuperfluousFrees runs the tests without each.
var withoutEffect = superfluousFrees{
	{"/arena_test.go", "arenaModel.step", "a", "^TestArenaModel$"},                    // a model frees at random times, and at the end
	{"/arena_test.go", "TestArenaConcurrently", "a", "^TestArenaConcurrently$"},       // nothing was taken out since the one before
	{"/chain_model_test.go", "ropeModel.drain", "m.chain", "^TestChainModel$"},        // all was read
	{"/chain_test.go", "TestReadFromPacks", "c", "^TestReadFromPacks$"},               // all was taken
	{"/writer_test.go", "runWriter", "m.w", "^TestWriterModel$"},                      // all was moved
	{"/writer_test.go", "runWriter", "m.out", "^TestWriterModel$"},                    // all was read
	{"/h2/life_test.go", "lander.OnData", "b", "^TestLander$"},                        // it has length 0
	{"/rpc/internal/message/assemble_test.go", "TestAssemble", "a", "^TestAssemble$"}, // all was taken
}

// index is that of a mutant in the list, or -1.
func (list superfluousFrees) index(m Mutant) int {
	return slices.IndexFunc(list, func(s superfluous) bool {
		return m.Kind == Remove && m.In == s.in && m.What == s.what && strings.HasSuffix(m.Pos.Filename, s.file)
	})
}

// repository is the published modules, and the analyser's findings in them.
var repository = sync.OnceValues(func() (r struct {
	units []*driver.Unit
	facts *driver.Facts
	found []driver.Finding
}, err error) {
	r.facts = driver.NewFacts()
	r.units, err = driver.Load(driver.Config{Dir: "../../..", Patterns: []string{"github.com/tarn-go/tarn/..."}, Tests: true})
	if err == nil {
		r.found, err = driver.Run(vet.Analyzer, r.units, r.facts, nil)
	}
	return r, err
})

// longEnough leaves a test out of the short form. `make usual` runs the usual one.
func longEnough(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("the short form does not analyse the whole repository")
	}
}

// Without directives, reports in the repository's correct code concern less than mostReported of the
// functions that handle references.
const mostReported = 0.02

func TestReportsWithoutDirectives(t *testing.T) {
	longEnough(t)
	t.Setenv("GOWORK", "")
	r, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	functions, reports, directives := 0, 0, 0
	for _, u := range r.units {
		if !u.Reported {
			continue
		}
		functions += u.Result.(*vet.Summary).Functions
		p := *u.Package
		p.Syntax = slices.Clone(p.Syntax)
		before := directives
		for i, file := range p.Syntax {
			without := *file
			without.Comments = nil
			for _, group := range file.Comments {
				g := *group
				g.List = slices.DeleteFunc(slices.Clone(g.List), func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//tarn:") })
				directives += len(group.List) - len(g.List)
				if len(g.List) > 0 {
					without.Comments = append(without.Comments, &g)
				}
			}
			p.Syntax[i] = &without
		}
		if directives == before {
			continue // nothing changes
		}
		found, err := driver.One(vet.Analyzer, &driver.Unit{Package: &p, Reported: true}, r.facts.Reading())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			t.Log(f)
		}
		reports += len(found)
	}
	share := float64(reports) / float64(max(functions, 1))
	t.Logf("%d reports without the %d directives, of %d functions: %.2f %%", reports, directives, functions, 100*share)
	if functions < 1000 || share >= mostReported {
		t.Errorf("%.2f %% of %d functions are reported", 100*share, functions)
	}
	if reports < directives {
		t.Errorf("%d directives allow %d reports", directives, reports)
	}
}

func TestPlantedMistakesAreFound(t *testing.T) {
	longEnough(t)
	t.Setenv("GOWORK", "")
	r, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	units, facts, before := r.units, r.facts, r.found
	known := map[string]bool{}
	for _, f := range before {
		known[signature(f)] = true
	}
	src := map[string][]byte{}
	var mutants []Mutant
	noMistakes := 0
	for _, u := range units {
		if !u.Reported || strings.HasPrefix(u.PkgPath, "github.com/tarn-go/tarn/vet") {
			continue
		}
		own, err := sources(u)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(src, own)
		some, left := All(u, src, deliberate(u, before))
		all := len(some)
		some = slices.DeleteFunc(some, func(m Mutant) bool { return withoutEffect.index(m) >= 0 })
		left += all - len(some)
		mutants = append(mutants, some...)
		noMistakes += left
	}
	variables := 0
	for _, m := range mutants {
		if !m.Kept {
			variables++
		}
	}
	if len(mutants) < leastCount {
		t.Errorf("only %d mistakes can be planted", len(mutants))
	}
	t.Logf("%d mistakes can be planted, %d of them in variables; %d more changes would be none", len(mutants), variables, noMistakes)
	if only := os.Getenv("TARNVET_ONLY"); only != "" {
		wanted := strings.Split(only, ",")
		mutants = slices.DeleteFunc(mutants, func(m Mutant) bool {
			return !slices.ContainsFunc(wanted, func(at string) bool { return strings.Contains(m.String(), at) })
		})
	} else if os.Getenv("TARN_LONG") == "" {
		var some []Mutant
		for i := 0; i < len(mutants); i += shortEvery {
			some = append(some, mutants[i])
		}
		mutants = some
	}
	type tally struct{ found, all int }
	var mu sync.Mutex
	counts := map[Kind]*tally{Remove: {}, Double: {}, Early: {}, Forget: {}, After: {}}
	copies := &tally{} // counted apart: the bar is for references
	told, misled := 0, 0
	kept := map[Kind]*tally{Remove: {}, Double: {}, Early: {}, Forget: {}, After: {}}
	invalid := 0
	work := make(chan Mutant)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for m := range work {
				isNew := func(f driver.Finding) bool { return !known[signature(f)] }
				after, err := m.Alone(vet.Analyzer, facts, src)
				if err != nil || !slices.ContainsFunc(after, isNew) {
					after, err = m.Run(vet.Analyzer, facts, src)
				}
				mu.Lock()
				if err != nil {
					invalid++
					t.Logf("%v: not planted: %v", m, err)
				} else {
					c := counts[m.Kind]
					if m.Kept {
						c = kept[m.Kind]
					}
					if m.Kind == Copy {
						c = copies
					}
					c.all++
					for _, f := range after {
						if !isNew(f) {
							continue
						}
						if told++; !m.Fits(f) {
							misled++
							t.Logf("false report of %v: %v", m, f)
						}
					}
					if slices.ContainsFunc(after, isNew) {
						c.found++
					} else {
						t.Logf("not found: %v", m)
					}
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range mutants {
		work <- m
	}
	close(work)
	wg.Wait()
	sum := func(of map[Kind]*tally) (t tally, text string) {
		var parts []string
		for _, k := range []Kind{Remove, Double, Early, Forget, After} {
			t.found += of[k].found
			t.all += of[k].all
			parts = append(parts, fmt.Sprintf("%s %d of %d", k, of[k].found, of[k].all))
		}
		return t, strings.Join(parts, ", ")
	}
	percent := func(c tally) float64 { return 100 * float64(c.found) / float64(max(c.all, 1)) }
	in, text := sum(counts)
	t.Logf("in variables: found %d of %d planted mistakes, %.1f %% (%s)", in.found, in.all, percent(in), text)
	fields, text := sum(kept)
	t.Logf("in fields and elements: found %d of %d, %.1f %% (%s)", fields.found, fields.all, percent(fields), text)
	t.Logf("copies of containers: found %d of %d, %.1f %%", copies.found, copies.all, percent(*copies))
	all := tally{in.found + fields.found, in.all + fields.all}
	t.Logf("in all: found %d of %d, %.1f %%; %d could not be planted", all.found, all.all, percent(all), invalid)
	t.Logf("reports: %d, of which %d say something else than what was done, %.1f %%", told, misled, 100*float64(misled)/float64(max(told, 1)))
	if os.Getenv("TARNVET_ONLY") != "" {
		return
	}
	if most := mostFalse + slack(mostFalse, told); float64(misled) > most*float64(told) {
		t.Errorf("%d of %d reports are false", misled, told)
	}
	if least := 100 * (leastInVariables - slack(leastInVariables, in.all)); percent(in) < least {
		t.Errorf("%.1f %% found in variables, at least %.0f %% should be", percent(in), least)
	}
	if least := 100 * (leastFound - slack(leastFound, all.all)); percent(all) < least {
		t.Errorf("%.1f %% found, at least %.0f %% should be", percent(all), least)
	}
}

// slack is the allowed error of a share of a sample of n, since another sample is taken when the code changes: four
// standard deviations, which one in 30,000 random samples exceeds; 0 for all.
func slack(share float64, n int) float64 {
	if os.Getenv("TARN_LONG") != "" {
		return 0
	}
	return 4 * math.Sqrt(share*(1-share)/float64(max(n, 1)))
}

// signature identifies a finding independently of the rest of its line.
func signature(f driver.Finding) string {
	return fmt.Sprintf("%s:%d:%s", f.Position.Filename, f.Position.Line, f.Category)
}

// deliberate reports positions in functions with a directive or a finding: a mistake planted in code that
// makes mistakes on purpose proves nothing.
func deliberate(u *driver.Unit, found []driver.Finding) func(token.Position) bool {
	type span struct {
		file     string
		from, to int
	}
	var spans []span
	for _, file := range u.Syntax {
		var marks []token.Pos
		for _, d := range report.Directives(file) {
			marks = append(marks, d.Pos())
		}
		for _, f := range found {
			if f.Fset == u.Fset {
				marks = append(marks, f.Pos)
			}
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from := fn.Pos()
			if fn.Doc != nil {
				from = fn.Doc.Pos()
			}
			if noMistake[fn.Name.Name] != "" {
				marks = append(marks, from)
			}
			for _, m := range marks {
				if from <= m && m < fn.End() {
					p := u.Fset.Position(from)
					spans = append(spans, span{p.Filename, p.Line, u.Fset.Position(fn.End()).Line})
				}
			}
		}
	}
	return func(p token.Position) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return s.file == p.Filename && s.from <= p.Line && p.Line <= s.to })
	}
}

// The tests that run a superfluous Free pass without it, and with it.
func TestSuperfluousFrees(t *testing.T) {
	if os.Getenv("TARN_LONG") == "" {
		t.Skip("the short form runs no tests of other packages")
	}
	t.Setenv("GOWORK", "")
	r, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, u := range r.units {
		if !u.Reported {
			continue
		}
		src, err := sources(u)
		if err != nil {
			t.Fatal(err)
		}
		list, _ := All(u, src, deliberate(u, r.found))
		for _, m := range list {
			i := withoutEffect.index(m)
			if i < 0 {
				continue
			}
			found++
			t.Run(m.String(), func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "planted.go")
				if err := os.WriteFile(file, m.Planted(src), 0o600); err != nil {
					t.Fatal(err)
				}
				overlay, err := json.Marshal(map[string]map[string]string{"Replace": {m.Pos.Filename: file}})
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file+".json", overlay, 0o600); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-overlay="+file+".json", "-run="+withoutEffect[i].tests, ".")
				cmd.Dir = filepath.Dir(m.Pos.Filename)
				out, err := cmd.CombinedOutput()
				if err != nil || strings.Contains(string(out), "no tests to run") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
	if found != len(withoutEffect) {
		t.Errorf("%d of the list of %d are there", found, len(withoutEffect))
	}
}

// sources are the texts of a unit's files.
func sources(u *driver.Unit) (map[string][]byte, error) {
	src := map[string][]byte{}
	for _, f := range u.Syntax {
		name := u.Fset.Position(f.Pos()).Filename
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		src[name] = text
	}
	return src, nil
}
