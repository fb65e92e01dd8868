//go:build amd64 || arm64

package tarn_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The fast paths of Get and Free are one call and one compare-and-swap only as long as the compiler
// inlines their outer halves.
func TestInlining(t *testing.T) {
	// A directory that no build has named before: what the build cache replays lacked a package's lines once.
	out, err := exec.Command("go", "build", "-gcflags=-m -I="+t.TempDir(), ".", "./internal/slab").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, f := range []string{
		"Buffer.Free", "Buffer.Ref", "Buffer.Unique", "Buffer.Len", "Buffer.IsZero", "(*Pool).Get", "(*Arena).Get",
		"(*Writer).Write", "(*Writer).WriteString", "(*Writer).WriteByte",
		"(*Slab).Free", "(*Slab).Stale", "(*Slab).Suspect", "Key.Divisible", "Key.Divide", "sampleHash",
	} {
		if !strings.Contains(string(out), "can inline "+f+"\n") {
			t.Errorf("%s is no longer inlined", f)
		}
	}
	if t.Failed() {
		t.Logf("the compiler's output:\n%s", out)
	}
}
