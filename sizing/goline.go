package sizing

import (
	"strconv"
	"strings"
)

// GoLine returns ladder as the Classes field of a PoolConfig, ready to paste: gofmt leaves it as it is,
// and sizes are written so that a reader recognises them (16384 as 16<<10).
func GoLine(ladder []int) string {
	var b strings.Builder
	b.WriteString("Classes: []int{")
	if len(ladder) <= 8 {
		for i, c := range ladder {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(goSize(c))
		}
		b.WriteString("},")
		return b.String()
	}
	for i, c := range ladder {
		if i%8 == 0 {
			b.WriteString("\n\t")
		} else {
			b.WriteString(" ")
		}
		b.WriteString(goSize(c) + ",")
	}
	b.WriteString("\n},")
	return b.String()
}

// goSize writes multiples of 1 KiB, from 4 KiB on, and of 1 MiB as shifts, and other sizes as they are.
func goSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "<<20"
	case n >= 1<<12 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "<<10"
	default:
		return strconv.Itoa(n)
	}
}
