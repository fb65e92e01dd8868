#!/bin/sh
# Runs benchmarks beside peers and prints Markdown tables: medians, ranges and ratios, which are Tarn's value
# divided by the other's.
#
#   ./run.sh                 core rpc neutral idle smb files: about a quarter of an hour on two cores
#   ./run.sh core rpc        those named; also: anchors burst http whole connect web decode attack contention beside
#                            libraries rclone calls
#   ./run.sh anchors         neutral http whole rclone: beside today's best of other languages and projects; about an hour
#   COUNT=3 ./run.sh         that many turns instead of 5
#   KEEP=DIR ./run.sh        keeps the raw results there, for benchstat and ./table
#
# Each turn runs all benchmarks of a suite, so that a period in which the machine is slow does not affect one contestant alone.
# Close all other programs first. neutral, decode and http need h2load, neutral and whole cargo; http builds its servers by Go $NEXT as well
# (1.27.1); smb, whole and files need smbd, files smbclient; libsmb2 is compared where
# pkg-config finds it. docs/evidence has the latest output.
set -eu
cd "$(dirname "$0")"
count=${COUNT:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
keep=${KEEP:-$work/results}
mkdir -p "$keep"

# measure NAME PACKAGE PATTERN BENCHTIME [FIRST]: turns of a package's benchmarks, and their table
measure() {
	(cd "$2" && go test -c -o "$work/$1.test" .)
	: >"$keep/$1.txt"
	turn=1
	while [ "$turn" -le "$count" ]; do
		echo "$1: turn $turn of $count" >&2
		(cd "$2" && TARN_TURN=$turn "$work/$1.test" -test.run '^$' -test.bench "$3" -test.benchtime "$4" -test.timeout 20m) >>"$keep/$1.txt"
		turn=$((turn + 1))
	done
	print "$1" "${5:-tarn}"
}

# print NAME [FIRST]: the tables of results, whose ratios are those of FIRST to the others
print() {
	echo "## $1"
	echo
	echo "$(go env GOVERSION), $(nproc 2>/dev/null || echo ?) processors, $(date -u '+%Y-%m-%d %H:%M UTC'), $count turns."
	echo
	go run ./table -first "${2:-tarn}" "$keep/$1.txt"
}

[ $# -gt 0 ] || set -- core rpc neutral idle smb files
[ "$*" != anchors ] || set -- neutral http whole rclone
for suite; do
	case $suite in
	core) measure core . '^Benchmark(GetFree|Split|Lookup|Parallel|Small|Writer|Mixed|Adapt|Chaos|Record)$' 100ms ;;
	burst) measure burst . '^BenchmarkBurstAfterGC$' 100x ;;
	rpc)
		measure unary ./rpc '^BenchmarkUnary$' 150ms
		measure stream ./rpc '^BenchmarkStream$' 100ms
		;;
	neutral)
		go build -o "$work/neutral" ./neutral
		"$work/neutral" -count "$count" -others >"$keep/neutral.txt"
		print neutral
		;;
	http)
		go build -o "$work/neutral" ./neutral
		GOTOOLCHAIN=${NEXT:-go1.27.1} go build -o "$work/next" ./neutral
		"$work/neutral" -bench http -count "$count" -next "$work/next" >"$keep/http.txt"
		print http h2http
		;;
	idle) go run ./idle -turns "$count" ;;
	whole) measure whole ./smb '^BenchmarkWhole$' 200ms ;;
	smb)
		measure script ./smb '^Benchmark(Script|Mixed)$' 200ms
		measure samba ./smb '^Benchmark(Samba|Delayed)$' 200ms
		;;
	# The aims of SMB in the project's design are the rows of calls and files.
	calls) measure calls ./smb '^BenchmarkSamba$/././^shape=seq-1M$' 200ms ;;
	files) measure files ./smb '^Benchmark(Files|Tree)$' 200ms ;;
	connect) measure connect ./h2http '^BenchmarkConnectUnary$' 10000x ;;
	web)
		go run ./web -turns "$count" >"$keep/web.txt"
		print web
		;;
	decode) go run ./decode -turns "$count" ;;
	attack) go run ./attack -turns "$count" ;;
	contention) go run ./contention ;;
	beside) go run ./beside -turns "$count" ;;
	libraries)
		measure etcd ../interop/etcd . 400ms
		measure bigtable ../interop/bigtable . 150ms
		measure libraries ../interop/libraries . 150ms
		;;
	rclone) measure rclone ../interop/rclone '^BenchmarkCopy$' 1x tarnsmb ;;
	*)
		echo "run.sh: there is no \"$suite\"; there are: anchors core burst rpc neutral http idle smb whole calls files connect web decode attack contention beside libraries rclone" >&2
		exit 2
		;;
	esac
done
