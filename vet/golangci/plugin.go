// Package golangci makes the analyser a plugin of golangci-lint's module system; docs/vet.md shows how to
// build it.
package golangci

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/tarn-go/tarn/vet"
)

// golangci-lint finds plugins that register themselves when they are imported.
var _ = registered()

func registered() bool {
	register.Plugin(vet.Analyzer.Name, func(any) (register.LinterPlugin, error) { return plugin{}, nil })
	return true
}

type plugin struct{}

// BuildAnalyzers returns the analyser.
func (plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	return []*analysis.Analyzer{vet.Analyzer}, nil
}

// GetLoadMode requests type information.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
