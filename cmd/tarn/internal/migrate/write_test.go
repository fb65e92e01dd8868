//go:build unix

package migrate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// TestBackFromUnfinished goes back after a migration that left a package that does not compile.
func TestBackFromUnfinished(t *testing.T) {
	const stuck = `package stuck

import "google.golang.org/grpc"

func Old() (*grpc.ClientConn, error) { return grpc.Dial("x", grpc.WithInsecure()) }

func New() *grpc.Server { return grpc.NewServer() }
`
	const other = "package stuck\n\nimport \"google.golang.org/grpc\"\n\nvar made *grpc.Server = New()\n"
	dir := module(t, "cmd/tarn", map[string]string{"a.go": stuck, "b.go": other})
	if status, out := migrate(t, dir); status != cli.Failed || read(t, dir, "a.go") == stuck {
		t.Fatalf("status %d, %s", status, out)
	}
	if status, out := migrate(t, dir, "-back"); status != cli.OK || read(t, dir, "a.go") != stuck || read(t, dir, "b.go") != other {
		t.Errorf("status %d, %s\n%s", status, out, read(t, dir, "a.go"))
	}
	// Something else of the program does not compile either.
	broken := stuck + "\nvar wrong int = undefined\n"
	if status, out := migrate(t, dir); status != cli.Failed {
		t.Fatalf("status %d, %s", status, out)
	}
	migrated := read(t, dir, "a.go") + "\nvar wrong int = undefined\n"
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(migrated), 0o666); err != nil {
		t.Fatal(err)
	}
	if status, out := migrate(t, dir, "-back"); status != cli.Failed || read(t, dir, "a.go") != broken || !strings.Contains(out, "undefined: undefined") {
		t.Errorf("status %d, %s\n%s", status, out, read(t, dir, "a.go"))
	}
}

// TestReplaceFile: a file keeps its mode and its symbolic link, and is not replaced if it is not what was read.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "real"), filepath.Join(dir, "a.go")
	if err := os.WriteFile(name, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(link, []byte("old"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); to != "real" {
		t.Error(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o640 || read(t, name) != "new" {
		t.Errorf("%v, %v", info, err)
	}
	if err := replaceFile(link, []byte("old"), []byte("newer")); err == nil || read(t, name) != "new" {
		t.Errorf("replaced what was changed meanwhile: %v", err)
	}
}

// TestSomeWritten changes two files, the second of which has changed since it was read: what has been written is named.
func TestSomeWritten(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.go"), filepath.Join(dir, "b.go")
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p := program{changed: map[string]*file{a: {src: []byte("old"), text: []byte("new")}, b: {src: []byte("read"), text: []byte("new")}}}
	var out bytes.Buffer
	err := p.write(&out)
	if err == nil || !strings.Contains(err.Error(), "b.go was changed") || !strings.Contains(err.Error(), "1 of 2") || out.String() != "changed:\n  "+a+"\n" {
		t.Errorf("%v\n%s", err, &out)
	}
	if read(t, a) != "new" || read(t, b) != "old" {
		t.Error("another content")
	}
}
