package main

import (
	"os/exec"
	"path/filepath"
	"strings"
)

// sourceTree is the folder of the Go source tree that the go command in use was built with.
func sourceTree() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	return filepath.Join(strings.TrimSpace(string(out)), "src"), err
}
