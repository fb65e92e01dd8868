package sizing

import (
	"strconv"
	"strings"
)

// GoLine returns ladder as the Classes field of a PoolConfig, ready to paste: gofmt leaves it as it is.
func GoLine(ladder []int) string {
	var b strings.Builder
	b.WriteString("Classes: []int{")
	if len(ladder) <= 6 {
		for i, c := range ladder {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(strconv.Itoa(c))
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
		b.WriteString(strconv.Itoa(c) + ",")
	}
	b.WriteString("\n},")
	return b.String()
}
