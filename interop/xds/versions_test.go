package xds_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// versions are releases of grpc-go besides the one of go.mod: the lowest that package rpc supports, and those between.
var versions = []string{"v1.83.2", "v1.84.0"}

// TestVersions runs the tests of this package with other releases of grpc-go; with TARN_LONG=1, because each takes minutes to compile.
func TestVersions(t *testing.T) {
	if os.Getenv("TARN_LONG") == "" {
		t.Skip("TARN_LONG=1 runs it")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"go.mod", "go.sum"} {
				b, err := os.ReadFile(filepath.Join("..", name))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			mod := filepath.Join(dir, "go.mod")
			goTool(t, ".", "mod", "edit", "-replace=google.golang.org/grpc=google.golang.org/grpc@"+version, mod)
			cmd := exec.Command("go", "test", "-mod=mod", "-modfile="+mod, "-vet=off", "-count=1", "-v", "-run=^Test(Features|RouteMovesUnderLoad|Allocations|TwoBootstraps|BadBootstrap|Release)$", ".")
			cmd.Env = append(os.Environ(), "GOWORK=off", inTests+"=")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "grpc-go "+strings.TrimPrefix(version, "v")) {
				t.Errorf("%v\n%s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "calls lost") || strings.Contains(line, "allocations") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}
