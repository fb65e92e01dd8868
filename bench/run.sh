#!/bin/sh
# Runs the benchmarks, keeps their raw output in results/, and prints benchstat's tables.
#
#   ./run.sh             core and rpc, about ten minutes on two cores
#   ./run.sh core rpc    those named: core, rpc, idle
#   COUNT=3 ./run.sh     that many turns of each instead of 5 (core) and 3 (rpc)
#
# Turns go over all benchmarks before any is repeated, so that a slow spell of the machine does not
# fall upon one contestant alone. Close everything else first.
set -eu
cd "$(dirname "$0")"
mkdir -p results
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

# measure NAME PACKAGE PATTERN BENCHTIME COUNT
measure() {
	out="results/$1.txt"
	go test -c -o "$bin/$1" "$2"
	{
		echo "# $(go version), $(nproc 2>/dev/null || echo ?) processors, $(date -u '+%Y-%m-%d %H:%M UTC')"
		echo "# -bench '$3' -benchtime $4, $5 turns"
	} >"$out.new"
	turn=1
	while [ "$turn" -le "$5" ]; do
		echo "$1: turn $turn of $5" >&2
		(cd "$2" && "$bin/$1" -test.run '^$' -test.bench "$3" -test.benchtime "$4" -test.timeout 20m) >>"$out.new"
		turn=$((turn + 1))
	done
	mv "$out.new" "$out"
	echo
	echo "== $1 =="
	go tool benchstat -table .name -col /peer "$out"
}

[ $# -gt 0 ] || set -- core rpc idle
for what; do
	case $what in
	core)
		measure core . '^Benchmark(GetFree|Split|Lookup|Parallel|Small|Writer|Mixed|Adapt|Chaos|Record)$' 100ms "${COUNT:-5}"
		measure burst . '^BenchmarkBurstAfterGC$' 100x "${COUNT:-5}"
		;;
	rpc)
		measure unary ./rpc '^BenchmarkUnary$' 150ms "${COUNT:-3}"
		measure stream ./rpc '^BenchmarkStream$' 100ms "${COUNT:-3}"
		;;
	idle) measure idle ./rpc '^BenchmarkIdle$' 1x "${COUNT:-3}" ;;
	*)
		echo "run.sh: there is no \"$what\"; there are: core rpc idle" >&2
		exit 2
		;;
	esac
done
echo
go run ./claims -w ../docs/performance.md
echo "docs/performance.md has the new figures." >&2
