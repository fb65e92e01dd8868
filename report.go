package tarn

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// teller reports what no panic can: to the config's Report, or in one line on standard error.
type teller struct {
	report func(Misuse)
	told   [Unguarded + 1]atomic.Uint64
}

// tell reports one misuse. Standard error gets the first of a kind, then the second, the fourth,
// the eighth and so on with their number: a program that does it in a loop must still be read.
func (t *teller) tell(m Misuse) {
	if t.report != nil {
		t.report(m)
		return
	}
	n := t.told[m.Kind].Add(1)
	if n&(n-1) != 0 {
		return
	}
	line, _, _ := strings.Cut(m.Error(), "\n")
	if n > 1 {
		line += fmt.Sprintf(" (%d of these so far)", n)
	}
	fmt.Fprintln(os.Stderr, line)
}
