package smb

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/cputime"
)

// hugeTree has one directory with many files.
type hugeTree struct {
	tree
	files fstest.MapFS
	list  []fs.DirEntry
}

func newHugeTree(t *testing.T, files int) *hugeTree {
	t.Helper()
	h := &hugeTree{files: fstest.MapFS{}}
	for i := range files {
		h.files[fmt.Sprintf("file%d", i)] = &fstest.MapFile{Data: []byte("x"), Mode: 0o644, ModTime: time.Unix(1e9, 0)}
	}
	var err error
	if h.list, err = fs.ReadDir(h.files, "."); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hugeTree) Lstat(name string) (fs.FileInfo, error)     { return fs.Stat(h.files, name) }
func (h *hugeTree) ReadDir(name string) ([]fs.DirEntry, error) { return h.list, nil }
func (h *hugeTree) label(name string) string                   { return name }
func (h *hugeTree) fold(name string) string                    { return name }

// TestPlanOfHugeDirectory plans the copy of a directory with many files onto one that has them: the processor time grows with the number
// of files, not with its square, which would be minutes here.
func TestPlanOfHugeDirectory(t *testing.T) {
	const files = 40_000
	a := newApp("put", options{recursive: true, quiet: true}, cli.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	defer a.close()
	from, to := newHugeTree(t, files), newHugeTree(t, files)
	var p plan
	begun := cputime.Used()
	if err := a.tree(t.Context(), &p, route{from, to, ".", "."}); err != nil {
		t.Fatal(err)
	}
	if spent := cputime.Used() - begun; spent > 30*time.Second {
		t.Errorf("%v of processor time", spent)
	}
	if len(p.jobs) != files || !p.jobs[0].present {
		t.Errorf("%d files", len(p.jobs))
	}
}
