package smb_test

import (
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// TestFileID has the id of a file from Stat and Lstat: another name keeps it, another file does not have it.
func TestFileID(t *testing.T) {
	share := mount(t, rigtest.Start(t, rig.Config{Mode: rig.Signed}), smb.Dialer{})
	id := func(name string) uint64 {
		t.Helper()
		a, err := share.Stat(name)
		must(t, err)
		b, err := share.Lstat(name)
		must(t, err)
		x, y := a.Sys().(*smb.FileStat).FileID, b.Sys().(*smb.FileStat).FileID
		if x == 0 || x != y {
			t.Errorf("%s: %d and %d", name, x, y)
		}
		return x
	}
	must(t, share.WriteFile("a", nil, 0o666))
	must(t, share.Mkdir("d", 0o777))
	file, dir := id("a"), id("d")
	must(t, share.Rename("a", "b"))
	must(t, share.WriteFile("a", nil, 0o666))
	if id("b") != file || id("a") == file || dir == file {
		t.Errorf("%d of b, %d of a; %d and %d before", id("b"), id("a"), file, dir)
	}
}
