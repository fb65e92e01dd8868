package smb_test

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// TestAllocationsByName: what operations on a named file allocate, the file's information and its names included.
func TestAllocationsByName(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{Mode: rig.Plain})
	if raceEnabled {
		t.Log("the race detector allocates: asserted in runs without it")
		return
	}
	pool, err := tarn.NewPool(tarn.PoolConfig{Check: tarn.CheckOff})
	must(t, err)
	share := mount(t, srv, smb.Dialer{Pool: pool})
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // allocations of other pools at a collection are not counted
	content := make([]byte, 4096)
	for _, c := range []struct {
		name string
		most float64
		op   func() error
	}{
		{"WriteFile", 10, func() error { return share.WriteFile("file", content, 0o666) }},
		{"Stat", 7, func() error { _, err := share.Stat("file"); return err }},
		{"OpenFile, WriteAt, Close", 18, func() error {
			f, err := share.OpenFile("file", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
			if err != nil {
				return err
			}
			if _, err := f.WriteAt(content, 0); err != nil {
				return err
			}
			return f.Close()
		}},
	} {
		if n := allocations(func() { must(t, c.op()) }); n > c.most {
			t.Errorf("%s: %v allocations, not %v at most", c.name, n, c.most)
		}
	}
}
