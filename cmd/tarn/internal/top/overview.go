package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/internal/plot"
)

// mostWhole is up to how many pools are drawn with their classes and holders.
const mostWhole = 4

// overview draws a line for each pool: those in trouble first, then those with most in use.
func (v *view) overview(b *strings.Builder) {
	pools := slices.SortedStableFunc(slices.Values(v.now.Pools), func(a, b debug.Pool) int {
		return cmp.Or(len(troubles(b))-len(troubles(a)), cmp.Compare(b.InUse, a.InUse))
	})
	b.WriteString("\n" + v.styles.dim.Render(cut(fmt.Sprintf("%10s%10s%10s  pool, and what is wrong (-pool NAME has its classes and holders)", "in use", "idle", "gets/s"), v.width)) + "\n")
	for _, p := range pools {
		rate := "–"
		if gets, ok := v.rate(p.Name, func(p debug.Pool) uint64 { return p.Gets }); ok {
			rate = plot.Count(gets)
		}
		line := cut(fmt.Sprintf("%10s%10s%10s  %s", size1(p.InUse), size1(p.Idle), rate, strings.Join(append([]string{fetch.Clean(p.Name)}, troubles(p)...), ", ")), v.width)
		if len(troubles(p)) > 0 {
			line = v.styles.bad.Render(line)
		}
		b.WriteString(line + "\n")
	}
}
