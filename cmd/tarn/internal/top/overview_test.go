package top

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/debug"
)

// Of many pools each has one line, and those in trouble are first.
func TestOverview(t *testing.T) {
	before := &debug.Snapshot{Program: "svc", Time: time.Unix(100, 0)}
	for i := range 50 {
		before.Pools = append(before.Pools, debug.Pool{Name: fmt.Sprintf("tenant-%02d", i), InUse: int64(i) << 20, Idle: 1 << 10, Gets: 1000})
	}
	now := &debug.Snapshot{Program: "svc", Time: time.Unix(102, 0), Pools: slices.Clone(before.Pools)}
	now.Pools[17].Leaked, now.Pools[49].Gets = 3, 5000
	lines := strings.Split(strings.TrimSpace(draw(view{before: before, now: now, width: 100})), "\n")
	if len(lines) != 53 || !strings.HasPrefix(lines[3], "    17 MiB     1 KiB         0  tenant-17, 3 leaked") || lines[4] != "    49 MiB     1 KiB        2k  tenant-49" {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}
