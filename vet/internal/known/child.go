package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/tarn-go/tarn/vet"
	"github.com/tarn-go/tarn/vet/internal/driver"
)

// analyse analyses packages of the module in the current directory.
func analyse(out io.Writer, packages []string) error {
	debug.SetGCPercent(200)
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	units, broken := driver.Load(driver.Config{Dir: root, Patterns: packages, FromSource: true})
	if len(units) == 0 {
		return errors.Join(broken, errors.New("no packages"))
	}
	var res result
	for _, u := range units {
		if !u.Reported {
			continue
		}
		res.Packages++
		if u.IllTyped {
			res.Broken++
			if len(u.Errors) > 0 {
				fmt.Fprintf(os.Stderr, "known: %s is left out: %v\n", u.PkgPath, u.Errors[0])
			}
			continue
		}
		for _, name := range u.GoFiles {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			res.Lines += bytes.Count(data, []byte("\n"))
		}
	}
	findings, err := driver.Run(vet.Analyzer, units, driver.NewFacts(), nil)
	if err != nil {
		return err
	}
	for _, f := range findings {
		res.Reports = append(res.Reports, report{relative(root, f.Position.Filename, f.Position.Line), f.Category, f.Message})
	}
	return json.NewEncoder(out).Encode(res)
}
