#!/usr/bin/env bash
# Runs every fuzz target of the module for the time given, one after the other.
set -euo pipefail
time=${1:-20s}
git grep -lE '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u | while read -r dir; do
	grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed 's/func //' | while read -r target; do
		echo "fuzz $dir $target"
		(cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" .) < /dev/null
	done
done
