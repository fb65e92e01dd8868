package rclone

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
)

// cost is the time of one run of rclone.
type cost struct{ elapsed, processor time.Duration }

// rclone copies there and back with each go-smb2, by turns; every byte is compared. The costs are
// printed: they are asserted nowhere, as other programs run on the machine that tests run on.
func TestCopy(t *testing.T) {
	modes, megabytes, files, rounds := rig.Modes()[:1], 64, 100, 1
	if os.Getenv("TARN_LONG") == "1" {
		modes, megabytes, files, rounds = rig.Modes(), 1024, 2000, 5
	}
	w := shop(t)
	binary := map[variant]string{}
	for _, v := range []variant{shipped, tarns} {
		binary[v] = w.build(t, v, "./rclone", "build")
	}
	source := t.TempDir()
	fill(t, filepath.Join(source, "large"), 1, megabytes<<20)
	fill(t, filepath.Join(source, "small"), files, 4096)
	for _, mode := range modes {
		srv := startServer(t, mode)
		for _, work := range []string{"large", "small"} {
			t.Run(mode.Name()+" "+work, func(t *testing.T) {
				put, get := map[variant][]cost{}, map[variant][]cost{}
				for round := range rounds {
					order := []variant{shipped, tarns}
					if round%2 == 1 {
						slices.Reverse(order)
					}
					for _, v := range order {
						from, back := filepath.Join(source, work), t.TempDir()
						there := fmt.Sprintf("%s-%s-%d", work, v, round)
						put[v] = append(put[v], copyTree(t, srv, binary[v], from, srv.share+"/"+there))
						get[v] = append(get[v], copyTree(t, srv, binary[v], srv.share+"/"+there, back))
						compare(t, from, back)
						compare(t, from, filepath.Join(srv.dir, there))
						if err := os.RemoveAll(filepath.Join(srv.dir, there)); err != nil {
							t.Error(err)
						}
						if err := os.RemoveAll(back); err != nil {
							t.Error(err)
						}
					}
				}
				report(t, "put", put)
				report(t, "get", get)
			})
		}
	}
}

func fill(t *testing.T, dir string, files, size int) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, min(size, 1<<20))
	for i := range files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%05d", i)))
		if err != nil {
			t.Fatal(err)
		}
		rand.Read(block)
		for range size / len(block) {
			if _, err := f.Write(block); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func copyTree(t *testing.T, srv *server, binary, from, to string) cost {
	t.Helper()
	cmd := exec.Command(binary, "copy", from, to)
	cmd.Env = srv.env
	begin := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s copy %s %s: %v\n%s", filepath.Base(binary), from, to, err, tail(out))
	}
	return cost{time.Since(begin), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
}

// compare fails the test unless both trees have the same files with the same bytes.
func compare(t *testing.T, a, b string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(a, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		rel, err := filepath.Rel(a, path)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(b, rel))
		if err != nil {
			return err
		}
		if !bytes.Equal(want, got) {
			return fmt.Errorf("%s differs", rel)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(b); err != nil || len(entries) != files {
		t.Errorf("%d files instead of %d, %v", len(entries), files, err)
	}
}

func report(t *testing.T, what string, costs map[variant][]cost) {
	t.Helper()
	middle := func(v variant, of func(cost) time.Duration) time.Duration {
		var all []time.Duration
		for _, c := range costs[v] {
			all = append(all, of(c))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	for name, of := range map[string]func(cost) time.Duration{
		"elapsed":        func(c cost) time.Duration { return c.elapsed },
		"processor time": func(c cost) time.Duration { return c.processor },
	} {
		a, b := middle(shipped, of), middle(tarns, of)
		t.Logf("%s, %s: shipped %v, tarn %v, ratio %.2f", what, name, a.Round(time.Millisecond), b.Round(time.Millisecond), float64(a)/float64(b))
	}
}
