package rclone

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/internal/turn"
)

// TestCopy copies there and back with each backend, and compares every byte.
func TestCopy(t *testing.T) {
	modes, megabytes, files := rig.Modes()[:1], 64, 100
	if os.Getenv("TARN_LONG") == "1" {
		modes, megabytes, files = rig.Modes(), 1024, 2000
	}
	for c := range copies(t, modes, []time.Duration{0, 2 * time.Millisecond}, megabytes, files) {
		t.Run(c.name(), func(t *testing.T) {
			c.put(t)
			c.get(t)
			c.check(t)
		})
	}
}

// BenchmarkCopy copies 1 GiB, and 2,000 files of 4 KiB, there and back with each backend, directly and with a round trip of 2 ms, for which
// there are 500 files. The time includes the start of rclone. Every byte is compared. Copies are made where TMPDIR is, which should be in memory. cpu-ns/op is
// rclone's processor time. With -short the copies are small, to see that they are right.
func BenchmarkCopy(b *testing.B) {
	megabytes, files := 1024, 2000
	if testing.Short() {
		megabytes, files = 16, 100
	}
	for c := range copies(b, rig.Modes(), []time.Duration{0, 2 * time.Millisecond}, megabytes, files) {
		done := 0 // those of the two that -bench has not left out
		for _, op := range []struct {
			name string
			copy func(testing.TB) time.Duration
		}{{"put", c.put}, {"get", c.get}} {
			b.Run(fmt.Sprintf("mode=%s/rtt=%v/files=%s/op=%s/peer=%s", c.mode.Name(), c.rtt, c.work, op.name, c.peer()), func(b *testing.B) {
				done++
				var used time.Duration
				for range b.N {
					used += op.copy(b)
				}
				b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
			})
		}
		if done > 0 {
			c.check(b)
		}
	}
}

// copying is one file or many, copied by one variant of rclone to one server and back.
type copying struct {
	srv               *server
	mode              rig.Mode
	rtt               time.Duration // that the connection has besides its own
	variant           variant
	work              string // large, small or fewer
	binary            string
	from, there, back string
}

// copies are those of all variants, in the order of this turn.
func copies(t testing.TB, modes []rig.Mode, rtts []time.Duration, megabytes, files int) iter.Seq[*copying] {
	w := shop(t)
	binary := map[variant]string{}
	for _, v := range variants {
		binary[v] = w.build(t, v, program, "build")
	}
	source := t.TempDir()
	fill(t, filepath.Join(source, "large"), 1, megabytes<<20)
	fill(t, filepath.Join(source, "small"), files, 4096)
	fill(t, filepath.Join(source, "fewer"), files/4, 4096)
	return func(yield func(*copying) bool) {
		for _, mode := range modes {
			direct := rigtest.Start(t, rig.Config{Mode: mode})
			for _, rtt := range rtts {
				addr, small := direct.Addr, "small"
				if rtt > 0 {
					addr, small = rigtest.Delay(t, addr, rtt/2), "fewer"
				}
				srv := configure(t, direct, addr)
				for _, work := range []string{"large", small} {
					for _, v := range turn.Order(slices.Clone(variants)...) {
						there := fmt.Sprintf("%s-%s", work, v)
						c := &copying{srv, mode, rtt, v, work, binary[v], filepath.Join(source, work), there, filepath.Join(t.TempDir(), "back")}
						if !yield(c) {
							return
						}
						c.remove(t)
					}
				}
			}
		}
	}
}

func (c *copying) name() string {
	return fmt.Sprintf("%s %v %s %s", c.mode.Name(), c.rtt, c.work, c.variant)
}

// peer is what the benchmark calls the variant.
func (c *copying) peer() string {
	if c.variant == shipped {
		return "go-smb2"
	}
	return string(c.variant)
}

// put copies to the server and returns the processor time.
func (c *copying) put(t testing.TB) time.Duration {
	t.Helper()
	return c.copy(t, c.from, c.srv.share+"/"+c.there)
}

// get copies what was put from the server and returns the processor time.
func (c *copying) get(t testing.TB) time.Duration {
	t.Helper()
	return c.copy(t, c.srv.share+"/"+c.there, c.back)
}

func (c *copying) copy(t testing.TB, from, to string) time.Duration {
	t.Helper()
	cmd := exec.Command(c.binary, "copy", "--ignore-times", from, to) // files that are there from an earlier iteration are copied again
	cmd.Env = c.srv.env(c.variant)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s copy %s %s: %v\n%s", filepath.Base(c.binary), from, to, err, tail(out))
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// check compares both copies with the source.
func (c *copying) check(t testing.TB) {
	t.Helper()
	compare(t, c.from, c.back)
	compare(t, c.from, filepath.Join(c.srv.dir, c.there))
}

// remove removes both copies, for which there would not be room in memory beside the next.
func (c *copying) remove(t testing.TB) {
	t.Helper()
	for _, dir := range []string{filepath.Join(c.srv.dir, c.there), c.back} {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

func fill(t testing.TB, dir string, files, size int) {
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

// compare fails the test unless both trees have the same files with the same bytes.
func compare(t testing.TB, a, b string) {
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
