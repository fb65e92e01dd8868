// Package turn orders the contestants of a benchmark. The machine that measures them may be slower at one time than at another, so
// bench/run.sh runs all of them a turn at a time, and the last of one turn is the first of the next.
package turn

import (
	"os"
	"slices"
	"strconv"
)

// Order returns contestants as they are, and reversed in every second turn of bench/run.sh, which sets TARN_TURN.
func Order[T any](contestants ...T) []T {
	if n, _ := strconv.Atoi(os.Getenv("TARN_TURN")); n > 0 && n%2 == 0 {
		slices.Reverse(contestants)
	}
	return contestants
}
