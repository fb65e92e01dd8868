package smb

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
)

// fullOutput is a standard output that takes nothing.
type fullOutput struct{}

func (fullOutput) Write([]byte) (int, error) { return 0, errors.New("the output is full") }

// TestOutputFails runs commands whose standard output cannot be written to: each says so once, and its exit status is 1. Files are copied
// nevertheless.
func TestOutputFails(t *testing.T) {
	s := startServer(t, rig.Config{})
	src := filepath.Join(t.TempDir(), "src")
	write(t, src, map[string]string{"a": "text", "b/c": "more"})
	must(t, "put", "-r", src, s.url("there"))
	back := filepath.Join(t.TempDir(), "back")
	for _, args := range [][]string{
		{"ls", s.url("there")},
		{"ls", "-json", s.url("there")},
		{"cat", s.url("there/a")},
		{"get", "-r", "-T", "-json", s.url("there"), back},
		{"put", "-r", "-T", "-P", src, s.url("again")},
	} {
		var errs bytes.Buffer
		status := Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: fullOutput{}, Err: &errs})
		if status != cli.Failed || strings.Count(errs.String(), "the output is full") != 1 {
			t.Errorf("%s: status %d\n%s", strings.Join(args, " "), status, errs.String())
		}
	}
	for _, dst := range []string{back, filepath.Join(s.Dir, "again")} {
		sameTree(t, src, dst)
	}
}
