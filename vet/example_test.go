package vet_test

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/passes/nilness"

	"github.com/tarn-go/tarn/vet"
)

// The main function of a checker with several analyzers. To run this one alone there is command tarnvet.
func Example() {
	multichecker.Main(nilness.Analyzer, vet.Analyzer)
}
