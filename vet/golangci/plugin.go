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
	register.Plugin(vet.Analyzer.Name, func(raw any) (register.LinterPlugin, error) {
		s, err := register.DecodeSettings[settings](raw)
		return plugin{s}, err
	})
	return true
}

// settings are those of the linter in .golangci.yml.
type settings struct {
	// Config is the file with the contracts of the project's own pools.
	Config string `json:"config"`
}

type plugin struct{ settings settings }

// BuildAnalyzers returns the analyser. golangci-lint makes a finding of each related position, of which a mistake has
// several: they are left out.
func (p plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	a := *vet.Analyzer
	if p.settings.Config != "" {
		if err := a.Flags.Set("config", p.settings.Config); err != nil {
			return nil, err
		}
	}
	a.Run = func(pass *analysis.Pass) (any, error) {
		alone := *pass
		alone.Report = func(d analysis.Diagnostic) {
			d.Related = nil
			pass.Report(d)
		}
		return vet.Analyzer.Run(&alone)
	}
	return []*analysis.Analyzer{&a}, nil
}

// GetLoadMode requests type information.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
