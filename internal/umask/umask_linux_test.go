package umask

import (
	"io/fs"
	"syscall"
	"testing"
)

func TestGet(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	for _, want := range []fs.FileMode{0, 0o027, 0o777} {
		syscall.Umask(int(want))
		if got := Get(); got != want {
			t.Errorf("%04o, want %04o", got, want)
		}
	}
}
