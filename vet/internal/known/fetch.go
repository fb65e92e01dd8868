package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Why a version has no result that counts.
var (
	errUnfetched  = errors.New("cannot be fetched")
	errUncompiled = errors.New("does not compile")
)

// attempt calls fetch up to four times, with pauses, until it returns no errUnfetched.
func attempt(fetch func() error) error {
	err := fetch()
	for _, pause := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
		if !errors.Is(err, errUnfetched) {
			break
		}
		time.Sleep(pause)
		err = fetch()
	}
	return err
}

// environment is that of a go command in a copied module. Older modules have no complete go.sum, and no cgo is needed.
func environment(dir string) []string {
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0", "PWD="+dir)
}

// download puts a module@version into the module cache, if it is not there.
func download(module string) (dir string, err error) {
	err = attempt(func() error {
		cmd := exec.Command("go", "mod", "download", "-json", module)
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := cmd.Output()
		var m struct{ Dir, Error string }
		if failed := json.Unmarshal(out, &m); failed != nil && err == nil {
			err = failed
		}
		if err != nil || m.Dir == "" {
			return fmt.Errorf("%s %w: %s", module, errUnfetched, strings.TrimSpace(m.Error))
		}
		dir = m.Dir
		return nil
	})
	return dir, err
}

// fetchImports fetches the modules that the packages of the module in dir import.
func fetchImports(dir string, env, packages []string) error {
	return attempt(func() error {
		cmd := exec.Command("go", append([]string{"list", "-e", "-deps", "-f", "{{with .Error}}{{.Err}}{{end}}"}, packages...)...)
		cmd.Dir, cmd.Env = dir, env
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		for line := range strings.Lines(string(out) + complaints.String()) {
			if ofNetwork(line) {
				return fmt.Errorf("what it imports %w: %s", errUnfetched, strings.TrimSpace(line))
			}
		}
		if err != nil {
			return fmt.Errorf("go list: %w: %s", err, strings.TrimSpace(complaints.String()))
		}
		return nil
	})
}

// ofNetwork reports whether an error of the go command says that something did not arrive, rather than that it does not exist.
func ofNetwork(text string) bool {
	return slices.ContainsFunc([]string{
		"dial tcp", "no such host", "i/o timeout", "TLS handshake", "connection re", "unexpected EOF", "stream error",
		": 429 ", ": 500 ", ": 502 ", ": 503 ", ": 504 ", "Client.Timeout", "module lookup disabled",
	}, func(sign string) bool { return strings.Contains(text, sign) })
}
