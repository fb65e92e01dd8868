package tarn_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tarn-go/tarn"
)

// go tool pprof reads the profile: who holds how many bytes, of which pool.
func TestWriteProfile(t *testing.T) {
	one := newPool(t, tarn.PoolConfig{Name: "one", Check: tarn.CheckAll})
	two := newPool(t, tarn.PoolConfig{Name: "two", Check: tarn.CheckAll})
	var held []tarn.Buffer
	for range 3 {
		b := one.Get(1 << 20)
		held = append(held, firstHolder(b))
		b.Free()
	}
	held = append(held, acquiredHere(two))
	var out bytes.Buffer
	if err := tarn.WriteProfile(&out, one, two); err != nil {
		t.Fatal(err)
	}
	for _, b := range held {
		b.Free()
	}
	file := t.TempDir() + "/buffers.pb.gz"
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-top"}, []string{"firstHolder", "3MB"}},
		{[]string{"-top", "-sample_index=references"}, []string{"Showing nodes accounting for 4, 100% of 4 total"}},
		{[]string{"-top", "-tagfocus=pool=two"}, []string{"0.12kB", "acquiredHere"}},
		{[]string{"-tags"}, []string{"one", "two"}},
	} {
		text, err := goPprof(append(c.args, file)...)
		for _, want := range c.want {
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("pprof %v (%v) lacks %q:\n%s", c.args, err, want, text)
			}
		}
		if strings.Contains(text, "internal/slab") {
			t.Errorf("frames of the core are shown:\n%s", text)
		}
	}
	if err := tarn.WriteProfile(failingWriter{}, one); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("the writer's error is lost: %v", err)
	}
}

// goPprof runs go tool pprof, for this machine in tests for another, too. Go has it as source only, and go tool would build all that it
// imports once more, without the GOFLAGS that the tests are built with: almost a minute of processor time.
func goPprof(args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"run", "cmd/pprof"}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOARCH=") || strings.HasPrefix(v, "CGO_ENABLED=")
	})
	text, err := cmd.CombinedOutput()
	return string(text), err
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, iotest.ErrTimeout }
