// Command known prints how many defects of other projects, of uses of pooled memory after its release, are reported in the
// version before they were fixed, and in the one with the fix. It downloads these from the module proxy.
//
//	go run ./internal/known
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/tarn-go/tarn/vet"
	"github.com/tarn-go/tarn/vet/internal/driver"
)

// A defect was fixed between two versions of a module.
type defect struct {
	module, before, after string
	packages              []string
	fix                   string // the change that fixed it
}

func defects() []defect {
	return []defect{
		{"github.com/thanos-io/thanos", "v0.23.1", "v0.24.0", []string{"./pkg/pool"}, "thanos-io/thanos#4792: a slice's capacity is read after Put"},
		{"github.com/go-resty/resty/v2", "v2.6.0", "v2.7.0", []string{"."}, "go-resty/resty#421: the bytes of a buffer that a deferred call puts back are returned"},
		{"github.com/danielgtaylor/huma/v2", "v2.22.0", "v2.22.1", []string{"."}, "danielgtaylor/huma#542: a request's body is used after its buffer was put back"},
		{"gopkg.in/src-d/go-git.v4", "v4.11.0", "v4.12.0", []string{"./plumbing/format/packfile"}, "src-d/go-git#1159: the bytes of a buffer that a deferred call puts back are returned"},
		{"github.com/syncthing/syncthing", "v1.14.0", "v1.15.0", []string{"./lib/protocol"}, "syncthing/syncthing#7409: a buffer is logged after Put"},
	}
}

func main() {
	// Modules in the cache are read only, and older ones have no complete go.sum.
	for name, value := range map[string]string{"GOWORK": "off", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, "known:", err)
			os.Exit(1)
		}
	}
	if !table(os.Stdout, defects()) {
		os.Exit(1)
	}
}

// table prints the result for each defect, and returns whether all could be analysed.
func table(out io.Writer, list []defect) bool {
	complete, reported, fixed := true, 0, 0
	fmt.Fprintf(out, "| defect | before | reports | after | reports |\n|---|---|---:|---|---:|\n")
	for _, d := range list {
		before, err := count(d, d.before)
		after, err2 := count(d, d.after)
		for _, err := range []error{err, err2} {
			if err != nil {
				fmt.Fprintf(os.Stderr, "known: %s: %v\n", d.module, err)
				complete = false
			}
		}
		if before > 0 {
			reported++
		}
		if after == 0 && err2 == nil {
			fixed++
		}
		fmt.Fprintf(out, "| %s | %s | %d | %s | %d |\n", d.fix, d.before, before, d.after, after)
	}
	fmt.Fprintf(out, "\n%d of %d reported before the fix; nothing reported after it in %d.\n", reported, len(list), fixed)
	return complete
}

// count is the number of findings in one version.
func count(d defect, version string) (int, error) {
	dir, err := download(d.module + "@" + version)
	if err != nil {
		return 0, err
	}
	units, err := driver.Load(driver.Config{Dir: dir, Patterns: slices.Clone(d.packages)})
	if err != nil {
		return 0, err
	}
	findings, err := driver.Run(vet.Analyzer, units, driver.NewFacts())
	for _, f := range findings {
		fmt.Fprintln(os.Stderr, f)
	}
	return len(findings), err
}

func download(module string) (dir string, err error) {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	var m struct{ Dir string }
	err = json.Unmarshal(out, &m)
	return m.Dir, err
}
