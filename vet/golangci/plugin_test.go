package golangci

import (
	"path/filepath"
	"testing"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/tarn-go/tarn/vet"
)

func TestRegistered(t *testing.T) {
	make, err := register.GetPlugin(vet.Analyzer.Name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := make(nil)
	if err != nil {
		t.Fatal(err)
	}
	analyzers, err := p.BuildAnalyzers()
	if err != nil || len(analyzers) != 1 || analyzers[0].Name != vet.Analyzer.Name || p.GetLoadMode() != register.LoadModeTypesInfo {
		t.Errorf("%v, %v, %s", analyzers, err, p.GetLoadMode())
	}
}

// golangci-lint makes a finding of each related position.
func TestNothingRelated(t *testing.T) {
	analyzers, err := plugin{}.BuildAnalyzers()
	if err != nil {
		t.Fatal(err)
	}
	testdata, err := filepath.Abs("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, r := range analysistest.Run(nothing{}, testdata, analyzers[0], "pool/own") {
		for _, d := range r.Diagnostics {
			found++
			if len(d.Related) > 0 {
				t.Errorf("%s: %d related positions", d.Message, len(d.Related))
			}
		}
	}
	if found != 3 {
		t.Errorf("%d findings, want 3", found)
	}
}

// nothing ignores what analysistest compares: the corpus has a test of its own.
type nothing struct{}

func (nothing) Errorf(string, ...any) {}

func TestSettings(t *testing.T) {
	load, err := register.GetPlugin(vet.Analyzer.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := load(map[string]any{"confg": "x"}); err == nil {
		t.Error("a misspelt setting is accepted")
	}
}
