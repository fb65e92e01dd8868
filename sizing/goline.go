package sizing

import (
	"strconv"
	"strings"
)

// lineWidth is how wide a pasted line may be, without its indentation.
const lineWidth = 48

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
	column := lineWidth
	for _, c := range ladder {
		size := strconv.Itoa(c) + ","
		if column+1+len(size) > lineWidth {
			b.WriteString("\n\t" + size)
			column = len(size)
			continue
		}
		b.WriteString(" " + size)
		column += 1 + len(size)
	}
	b.WriteString("\n},")
	return b.String()
}
