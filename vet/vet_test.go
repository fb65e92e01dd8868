package vet_test

import (
	"fmt"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/packages"

	"github.com/tarn-go/tarn/vet"
	"github.com/tarn-go/tarn/vet/internal/contracts"
)

// findings leaves the facts out, which the corpora test by the findings in callers.
type findings struct{ t *testing.T }

func (f findings) Errorf(format string, args ...any) {
	f.t.Helper()
	if text := fmt.Sprintf(format, args...); !strings.Contains(text, "unexpected fact") {
		f.t.Error(text)
	}
}

// There is one corpus for each kind of mistake, and corpora without mistakes.
func TestCorpora(t *testing.T) {
	analysistest.Run(findings{t}, analysistest.TestData(), vet.Analyzer,
		"leak", "use", "double", "escape", "copied", "write", "contracts", "directives", "quiet", "lookalike")
}

// One corpus for each pool, with correct uses.
func TestPools(t *testing.T) {
	analysistest.Run(findings{t}, analysistest.TestData(), vet.Analyzer,
		"pool/std", "pool/grpcmem", "pool/arrow", "pool/bytebuf", "pool/fast", "pool/libp2p", "pool/netpoll", "pool/zapbuffer", "pool/mcache", "pool/yolo", "pool/own")
}

func TestFixes(t *testing.T) {
	analysistest.RunWithSuggestedFixes(findings{t}, analysistest.TestData(), vet.Analyzer, "fix")
}

// The corpora's stand-in for package tarn agrees with the real one.
func TestStandIn(t *testing.T) {
	config := &packages.Config{Mode: packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedName, Dir: ".."}
	config.Env = append(os.Environ(), "GOWORK=off")
	real, err := packages.Load(config, "github.com/tarn-go/tarn")
	if err != nil || len(real) != 1 || len(real[0].Errors) > 0 {
		t.Fatalf("%v %v", real, err)
	}
	src := filepath.Join(analysistest.TestData(), "src")
	config = &packages.Config{Mode: config.Mode, Dir: src, Env: append(os.Environ(), "GOPATH="+filepath.Dir(src), "GO111MODULE=off", "GOWORK=off", "GOPROXY=off")}
	stub, err := packages.Load(config, "github.com/tarn-go/tarn")
	if err != nil || len(stub) != 1 || len(stub[0].Errors) > 0 {
		t.Fatalf("%v %v", stub, err)
	}
	has := signatures(real[0].Types)
	for _, s := range signatures(stub[0].Types) {
		if !slices.Contains(has, s) {
			t.Errorf("package tarn has no %s", s)
		}
	}
	// The table of primitives contains every method that moves a reference.
	for _, s := range contracts.Undeclared(real[0].Types) {
		t.Errorf("the analyser does not know what %s does with references", s)
	}
}

// signatures lists the exported functions and methods of the types that hold references.
func signatures(pkg *types.Package) []string {
	var list []string
	qualifier := types.RelativeTo(pkg)
	for _, name := range pkg.Scope().Names() {
		obj := pkg.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		switch obj := obj.(type) {
		case *types.Func:
			list = append(list, signature(obj, qualifier))
		case *types.TypeName:
			methods := types.NewMethodSet(types.NewPointer(obj.Type()))
			for m := range methods.Methods() {
				if fn, ok := m.Obj().(*types.Func); ok && fn.Exported() {
					list = append(list, obj.Name()+"."+signature(fn, qualifier))
				}
			}
		}
	}
	return list
}

// signature leaves the names of parameters out.
func signature(fn *types.Func, q types.Qualifier) string {
	var in, out []string
	for v := range fn.Signature().Params().Variables() {
		in = append(in, types.TypeString(v.Type(), q))
	}
	for v := range fn.Signature().Results().Variables() {
		out = append(out, types.TypeString(v.Type(), q))
	}
	return fmt.Sprintf("%s(%s) (%s)", fn.Name(), strings.Join(in, ", "), strings.Join(out, ", "))
}
