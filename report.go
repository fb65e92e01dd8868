package tarn

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// reporter reports what no panic can: to the config's Report, or in one line on standard error.
type reporter struct {
	report func(Misuse)
	counts [WriteAfterFree + 1]atomic.Uint64 // reports so far, by kind
}

// add reports one misuse. Standard error gets the first of a kind, then the second, the fourth,
// the eighth and so on with their number: a program that does it in a loop must not flood its log.
func (r *reporter) add(m Misuse) {
	if r.report != nil {
		r.report(m)
		return
	}
	n := r.counts[m.Kind].Add(1)
	if n&(n-1) != 0 {
		return
	}
	line, _, _ := strings.Cut(m.Error(), "\n")
	if n > 1 {
		line += fmt.Sprintf(" (%d of these so far)", n)
	}
	fmt.Fprintln(os.Stderr, line)
}
