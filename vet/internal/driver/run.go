package driver

import (
	"fmt"
	"go/token"
	"go/types"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis"
)

// A Finding is a diagnostic with its position.
type Finding struct {
	Package  string
	Position token.Position
	Fset     *token.FileSet
	analysis.Diagnostic
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s", f.Position, f.Message)
}

// Facts are the analyser's results about functions, for their callers.
type Facts struct {
	mu     sync.RWMutex
	list   map[key]analysis.Fact
	byName map[name]analysis.Fact // for variants of a package, whose objects differ
	fixed  bool
}

type key struct {
	obj types.Object
	typ reflect.Type
}

type name struct {
	full string
	typ  reflect.Type
}

// NewFacts returns an empty set.
func NewFacts() *Facts {
	return &Facts{list: map[key]analysis.Fact{}, byName: map[name]analysis.Fact{}}
}

// Get copies a fact to the value that fact points to.
func (f *Facts) Get(obj types.Object, fact analysis.Fact) bool {
	f.mu.RLock()
	known, ok := f.list[key{obj, reflect.TypeOf(fact)}]
	if fn, isFunc := obj.(*types.Func); !ok && isFunc {
		known, ok = f.byName[name{fn.FullName(), reflect.TypeOf(fact)}]
	}
	f.mu.RUnlock()
	if ok {
		reflect.ValueOf(fact).Elem().Set(reflect.ValueOf(known).Elem())
	}
	return ok
}

// Reading returns the same facts; facts set in the copy are not kept.
func (f *Facts) Reading() *Facts { return &Facts{list: f.list, byName: f.byName, fixed: true} }

// Set stores a fact.
func (f *Facts) Set(obj types.Object, fact analysis.Fact) {
	if f.fixed {
		return
	}
	f.mu.Lock()
	f.list[key{obj, reflect.TypeOf(fact)}] = fact
	if fn, ok := obj.(*types.Func); ok {
		f.byName[name{fn.FullName(), reflect.TypeOf(fact)}] = fact
	}
	f.mu.Unlock()
}

// Pass makes the analyser's pass for a package. report is called on the goroutine of the analysis.
func (f *Facts) Pass(a *analysis.Analyzer, u *Unit, report func(analysis.Diagnostic)) *analysis.Pass {
	return &analysis.Pass{
		Analyzer: a, Fset: u.Fset, Files: u.Syntax, OtherFiles: u.OtherFiles, IgnoredFiles: u.IgnoredFiles,
		Pkg: u.Types, TypesInfo: u.TypesInfo, TypesSizes: u.Sizes(), Report: report, ResultOf: map[*analysis.Analyzer]any{},
		ImportObjectFact: f.Get, ExportObjectFact: f.Set,
		ImportPackageFact: func(*types.Package, analysis.Fact) bool { return false },
		ExportPackageFact: func(analysis.Fact) {},
		AllObjectFacts:    func() []analysis.ObjectFact { return nil },
		AllPackageFacts:   func() []analysis.PackageFact { return nil },
	}
}

// Run analyses the packages, as many concurrently as there are processors, and returns the findings in those
// to be reported, ordered by file and line.
func Run(a *analysis.Analyzer, units []*Unit, facts *Facts, progress *Progress) ([]Finding, error) {
	progress.next("analysing", len(units))
	var (
		mu       sync.Mutex
		findings []Finding
		firstErr error
		wg       sync.WaitGroup
	)
	done := map[*Unit]chan struct{}{}
	for _, u := range units {
		done[u] = make(chan struct{})
	}
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, u := range units {
		wg.Go(func() {
			defer close(done[u])
			for _, d := range u.deps {
				<-done[d]
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			found, err := One(a, u, facts)
			progress.step()
			mu.Lock()
			defer mu.Unlock()
			if err != nil && firstErr == nil {
				firstErr = err
			}
			findings = append(findings, found...)
		})
	}
	wg.Wait()
	Sort(findings)
	return findings, firstErr
}

// One analyses one package.
func One(a *analysis.Analyzer, u *Unit, facts *Facts) (findings []Finding, err error) {
	defer func() {
		if v := recover(); v != nil {
			buf := make([]byte, 4<<10)
			err = fmt.Errorf("%s: the analyser failed: %v\n%s", u.ID, v, buf[:runtime.Stack(buf, false)])
		}
	}()
	if u.IllTyped {
		return nil, nil
	}
	pass := facts.Pass(a, u, func(d analysis.Diagnostic) {
		if u.Reported {
			findings = append(findings, Finding{u.PkgPath, u.Fset.Position(d.Pos), u.Fset, d})
		}
	})
	u.Result, err = a.Run(pass)
	return findings, err
}

// Sort orders findings by file and line.
func Sort(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		if c := strings.Compare(a.Position.Filename, b.Position.Filename); c != 0 {
			return c
		}
		return a.Position.Offset - b.Position.Offset
	})
}
