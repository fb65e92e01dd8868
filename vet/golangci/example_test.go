package golangci_test

import (
	"fmt"
	"log"

	"github.com/golangci/plugin-module-register/register"

	_ "github.com/tarn-go/tarn/vet/golangci"
)

// A golangci-lint that is built with this package has the linter tarnvet.
func Example() {
	load, err := register.GetPlugin("tarnvet")
	if err != nil {
		log.Fatal(err)
	}
	linter, err := load(nil)
	if err != nil {
		log.Fatal(err)
	}
	analyzers, err := linter.BuildAnalyzers()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(analyzers[0].Name)
	// Output: tarnvet
}
