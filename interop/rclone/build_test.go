package rclone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const (
	rclone = "github.com/rclone/rclone"
	goSMB2 = "github.com/cloudsoda/go-smb2"
)

// variant is which SMB backend a program is built with.
type variant string

const (
	shipped variant = "shipped" // rclone's smb on go-smb2
	tarns   variant = "tarn"    // rclone's smb on the packages of this repository under go-smb2's import path
	tarnsmb variant = "tarnsmb" // this repository's backend
)

var variants = []variant{shipped, tarns, tarnsmb}

// backend is the type of the variant's remotes.
func (v variant) backend() string {
	if v == tarnsmb {
		return "tarnsmb"
	}
	return "smb"
}

// workshop is where variants are built: once for all tests of a run.
type workshop struct {
	dir     string
	rclone  string // a copy of rclone's sources with few backends
	modfile map[variant]string
	module  map[variant]string // the directory of the module that it is built in
}

var dir string // the workshop's, removed by TestMain

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "tarnrclone"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var prepare = sync.OnceValues(func() (*workshop, error) {
	w := &workshop{dir: dir, rclone: filepath.Join(dir, "rclone"), modfile: map[variant]string{}, module: map[variant]string{}}
	repository, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	if err := w.copyRclone(); err != nil {
		return nil, err
	}
	standIn := filepath.Join(dir, "go-smb2")
	if err := copyStandIn(standIn, filepath.Join(repository, "smb", "krb5", "gosmb2")); err != nil {
		return nil, err
	}
	interop, backend := filepath.Join(repository, "interop", "rclone"), filepath.Join(repository, "smb", "rclone")
	for _, v := range []struct {
		variant
		module, replace string
	}{{shipped, interop, ""}, {tarns, interop, fmt.Sprintf("replace %s => %s\n", goSMB2, standIn)}, {tarnsmb, backend, ""}} {
		if err := w.writeModfile(v.variant, v.module, v.replace); err != nil {
			return nil, err
		}
	}
	return w, nil
})

// relative matches a replacement by a directory that is named relative to its module.
var relative = regexp.MustCompile(`=> (\.\S+)`)

// writeModfile writes the module's go.mod and go.sum for v, with the copy of rclone and a further replacement.
func (w *workshop) writeModfile(v variant, module, replace string) error {
	mod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return err
	}
	text := relative.ReplaceAllStringFunc(string(mod), func(s string) string { return "=> " + filepath.Join(module, strings.TrimPrefix(s, "=> ")) })
	text += fmt.Sprintf("\nreplace %s => %s\n%s", rclone, w.rclone, replace)
	w.module[v], w.modfile[v] = module, filepath.Join(w.dir, string(v)+".mod")
	if err := os.WriteFile(w.modfile[v], []byte(text), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.dir, string(v)+".sum"), sum, 0o600)
}

// copyRclone copies rclone's sources, of whose hundred backends those stay that its suites use beside SMB: a test binary with all of
// them takes many minutes to build. onedrive has a hash that the suites name.
func (w *workshop) copyRclone() error {
	original, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", rclone).Output()
	if err != nil {
		return fmt.Errorf("finding rclone: %w", err)
	}
	if err := os.CopyFS(w.rclone, os.DirFS(strings.TrimSpace(string(original)))); err != nil {
		return err
	}
	for name, text := range sources {
		name = filepath.Join(w.rclone, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// program is rclone with the commands that the tests run.
const program = rclone + "/program"

// sources are files that the copy of rclone has instead of its own, or besides.
var sources = map[string]string{
	"backend/all/all.go": `package all

import (
	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/memory"
	_ "github.com/rclone/rclone/backend/onedrive"
)
`,
	"backend/all/smb.go": `//go:build !tarnsmb

package all

import _ "github.com/rclone/rclone/backend/smb"
`,
	"backend/all/tarnsmb.go": `//go:build tarnsmb

package all

import tarnsmb "github.com/tarn-go/tarn/smb/rclone"

func init() { tarnsmb.Register() }
`,
	"program/main.go": `package main

import (
	_ "github.com/rclone/rclone/backend/all"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/copy"
)

func main() { cmd.Main() }
`,
	"program/serve.go": `//go:build tarnsmb || shipped

package main

import (
	_ "github.com/rclone/rclone/cmd/serve"
	_ "github.com/rclone/rclone/cmd/serve/webdav"
)
`,
}

// copyStandIn makes a module with go-smb2's path from the package that replaces it.
func copyStandIn(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	mod := "module " + goSMB2 + "\n\ngo 1.25.0\n"
	return os.WriteFile(filepath.Join(to, "go.mod"), []byte(mod), 0o600)
}

func shop(t testing.TB) *workshop {
	t.Helper()
	w, err := prepare()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// build builds a command, or the tests of a package, with the SMB backend of v.
func (w *workshop) build(t testing.TB, v variant, pkg string, args ...string) string {
	t.Helper()
	bin := filepath.Join(w.dir, string(v)+"-"+strings.ReplaceAll(strings.TrimPrefix(pkg, rclone+"/"), "/", "-"))
	// -trimpath: without it the build cache knows the directory of the sources, which is new in each run.
	args = append(append(args, "-trimpath", "-tags="+string(v), "-mod=mod", "-modfile="+w.modfile[v], "-o", bin), pkg)
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = w.module[v], append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return bin
}
