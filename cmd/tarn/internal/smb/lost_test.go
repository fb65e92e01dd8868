package smb

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/internal/rig"
	client "github.com/tarn-go/tarn/smb"
)

// A lost server is reported once, not once for each remaining file.
func TestServerGone(t *testing.T) {
	s := startServer(t, rig.Config{})
	src := filepath.Join(t.TempDir(), "src")
	makeTree(t, src)
	must(t, "put", "-r", src, s.url("there"))

	var out bytes.Buffer
	a := newApp("get", options{jobs: 2, recursive: true}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	a.waits = []time.Duration{time.Millisecond}
	a.limits.RedialTimeout = 100 * time.Millisecond // the client's own, five seconds, is waited for five times
	defer a.close()
	to, err := openLocal(t.TempDir(), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer to.close()
	from, err := a.source(t.Context(), s.url("there"))
	if err != nil {
		t.Fatal(err)
	}
	var p plan
	if err := a.add(t.Context(), &p, route{from.tree, to.tree, from.name, "."}); err != nil {
		t.Fatal(err)
	}
	var total atomic.Int64
	kill := sync.OnceFunc(s.Kill)
	err = a.each(t.Context(), &p, "copy", func(ctx context.Context, j *job, count func(int64)) error {
		return a.copyFile(ctx, j, func(n int64) {
			if total.Add(n) > 5<<20 {
				kill()
			}
			count(n)
		})
	})
	if !errors.Is(err, client.ErrConnLost) || !strings.Contains(err.Error(), "repeat the command") {
		t.Errorf("%v", err)
	}
	if strings.Contains(out.String(), "tarn smb") || !strings.Contains(out.String(), "copied ") {
		t.Errorf("want progress and the summary alone: %s", out.String())
	}
	if a.status(t.Context(), err) != cli.Failed {
		t.Error("status")
	}
}

// When a connection breaks while a file is copied, the command reconnects and continues the file.
func TestConnectionBreaks(t *testing.T) {
	s := startServer(t, rig.Config{})
	name, data := bigFile(t)
	must(t, "put", name, s.url("source"))
	a := newApp("get", options{jobs: 1, quiet: true}, cli.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	a.waits = []time.Duration{time.Millisecond}
	defer a.close()
	dir := t.TempDir()
	to, err := openLocal(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer to.close()
	from, err := a.source(t.Context(), s.url("source"))
	if err != nil {
		t.Fatal(err)
	}
	var p plan
	if err := a.add(t.Context(), &p, route{from.tree, to.tree, from.name, "target"}); err != nil {
		t.Fatal(err)
	}
	tries := 0
	err = a.each(t.Context(), &p, "copy", func(ctx context.Context, j *job, count func(int64)) error {
		tries++
		if tries == 1 { // as far as the middle
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			half := int64(0)
			err := a.copyFile(ctx, j, func(n int64) {
				if half += n; half > j.size/2 {
					cancel()
				}
				count(n)
			})
			if err == nil {
				t.Error("copied whole")
			}
			return client.ErrConnLost
		}
		if j.partSize < j.size/2 {
			t.Errorf("the copy continues at %d of %d", j.partSize, j.size)
		}
		return a.copyFile(ctx, j, count)
	})
	if err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "target")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("differs: %v", err)
	}
}

// breakingTree loses its connection during the first two calls of Mkdir: before the server has made the directory, and after.
type breakingTree struct {
	tree
	calls int
}

func (b *breakingTree) Mkdir(name string) error {
	b.calls++
	switch b.calls {
	case 1:
		return client.ErrConnLost
	case 2:
		if err := b.tree.Mkdir(name); err != nil {
			return err
		}
		return client.ErrConnLost
	}
	return b.tree.Mkdir(name)
}

// When a connection breaks while a directory is made, it is made again, or found to be there.
func TestMkdirAcrossLoss(t *testing.T) {
	a := newApp("put", options{recursive: true, quiet: true}, cli.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	defer a.close()
	a.waits = []time.Duration{time.Millisecond, time.Millisecond}
	source, target := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(source, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	from, err := openLocal(source, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer from.close()
	to, err := openLocal(target, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer to.close()
	breaking := &breakingTree{tree: to.tree}
	var p plan
	if err := a.add(t.Context(), &p, route{from.tree, breaking, ".", "."}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(target, "a", "b")); err != nil || !info.IsDir() || breaking.calls != 4 {
		t.Errorf("%d calls, %v", breaking.calls, err)
	}
	breaking.calls, a.waits = 0, nil
	if _, err := a.makeDir(t.Context(), breaking, "c"); !errors.Is(err, client.ErrConnLost) {
		t.Errorf("without another attempt: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	breaking.calls, a.waits = 0, []time.Duration{time.Hour}
	if _, err := a.makeDir(ctx, breaking, "d"); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
}
