#!/usr/bin/env bash
# fuzz.sh TIME [PATTERN] runs every fuzz target of the repository whose name matches PATTERN for the time given, one
# after the other.
#
# The default -fuzzminimizetime, a minute for each input that covers something new, takes the whole time of a target whose
# coverage differs between runs: FuzzChain ran its seeds and nothing else in 33 s.
#
# When the time ends go test may report "context deadline exceeded" and no input (go.dev/issue/75804): that is not a
# failure.
set -euo pipefail
time=${1:-20s}
pattern=${2:-.}
git grep -lE '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u | while read -r dir; do
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed 's/func //' | { grep -E "$pattern" || true; } | while read -r target; do
		echo "fuzz $dir $target"
		log=$(mktemp)
		(cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x .) < /dev/null 2>&1 | tee "$log" || {
			grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log"
		}
		rm -f "$log"
	done
done
