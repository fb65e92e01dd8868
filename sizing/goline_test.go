package sizing

import (
	"go/format"
	"strings"
	"testing"
)

// TestGoLine: the line is Go that gofmt does not change.
func TestGoLine(t *testing.T) {
	if got, want := GoLine([]int{64, 1024, 4096, 16<<10 + 9, 3 << 20}), "Classes: []int{64, 1024, 4096, 16393, 3145728},"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for n := range 40 {
		var ladder []int
		for i := range n {
			ladder = append(ladder, 4096*(i+1)+64*(i%3))
		}
		source := "package p\n\nvar _ = T{\n\t" + strings.ReplaceAll(GoLine(ladder), "\n", "\n\t") + "\n}\n"
		got, err := format.Source([]byte(source))
		if err != nil || string(got) != source {
			t.Fatalf("%v: gofmt makes\n%sof\n%s", err, got, source)
		}
	}
}
