package golangci

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"

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
	if err != nil || len(analyzers) != 1 || analyzers[0] != vet.Analyzer || p.GetLoadMode() != register.LoadModeTypesInfo {
		t.Errorf("%v, %v, %s", analyzers, err, p.GetLoadMode())
	}
}
