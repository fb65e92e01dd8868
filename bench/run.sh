#!/bin/sh
# Runs the benchmarks, keeps their raw output in results/, and prints benchstat's tables.
#
#   ./run.sh             everything but those below "not among those", about a quarter of an hour on two cores
#   ./run.sh core rpc    those named: core, rpc, neutral, idle, smb, files, http, attack, calls, least, web,
#                        libraries, rclone
#   RESULTS=DIR ./run.sh put the raw output there, and leave the pages as they are
#   ADD=1 ./run.sh       keep the turns of earlier runs, so that the figures are of several times
#   COUNT=3 ./run.sh     that many turns of each instead of 5
#
# smb needs smbd for its second half, and compares with smbclient where that is installed; files needs both; calls and least need
# smbd, and calls compares with libsmb2 where pkg-config finds it.
#
# Each turn runs all benchmarks, so that a period in which the machine is slow does not
# affect one contestant alone. Close all other programs first.
set -eu
cd "$(dirname "$0")"
results=${RESULTS:-results}
mkdir -p "$results"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
status=0 # 1 when an attack did not pass

# begin FILE: the turns of earlier runs, if they are to stay; kept is how many there are, so that the order of the contestants, which
# changes with each turn where a benchmark looks at TARN_TURN (smb's do), goes on changing
begin() {
	kept=0
	: >"$1.new"
	if [ -n "${ADD:-}" ] && [ -e "$1" ]; then
		cat "$1" >"$1.new"
		kept=$(awk 'match($0, /, [0-9]+ turns/) { n += substr($0, RSTART + 2) } END { print n + 0 }' "$1")
	fi
}

# heading WHAT TURNS: the lines before the results of a run
heading() {
	echo "# $(go version), $(nproc 2>/dev/null || echo ?) processors, $(date -u '+%Y-%m-%d %H:%M UTC')"
	echo "# -bench $1, $2 turns"
}

# processor: its name, as go test prints it
processor() { sed -n 's/^model name[^:]*: */cpu: /p' /proc/cpuinfo | head -n 1; }

# measure NAME PACKAGE PATTERN BENCHTIME COUNT
measure() {
	out="$results/$1.txt"
	begin "$out"
	(cd "$2" && go test -c -o "$bin/$1" .)
	heading "'$3' -benchtime $4" "$5" >>"$out.new"
	turn=1
	while [ "$turn" -le "$5" ]; do
		echo "$1: turn $turn of $5" >&2
		(cd "$2" && TARN_TURN=$((turn + kept)) "$bin/$1" -test.run '^$' -test.bench "$3" -test.benchtime "$4" -test.timeout 20m) >>"$out.new"
		turn=$((turn + 1))
	done
	mv "$out.new" "$out"
	echo
	echo "== $1 =="
	GOWORK=off go tool -modfile=../ci/tools/go.mod benchstat -table .name -col /peer "$out"
}

[ $# -gt 0 ] || set -- core rpc neutral idle smb files
for what; do
	case $what in
	http) # "tarn bench http" and connect-go, a minute a turn; not among those that run without being named
		go build -C ../cmd/tarn -o "$bin/tarn" .
		begin "$results/http.json"
		turn=1
		while [ "$turn" -le "${COUNT:-5}" ]; do
			echo "http: turn $turn of ${COUNT:-5}" >&2
			"$bin/tarn" bench -json http >>"$results/http.json.new"
			turn=$((turn + 1))
		done
		mv "$results/http.json.new" "$results/http.json"
		measure connect ./h2http '^BenchmarkConnectUnary$' 10000x "${COUNT:-5}"
		;;
	attack) # "go run ./attack -results", 10 minutes a turn; not among those that run without being named
		go build -o "$bin/attack" ./attack
		turn=1
		begin "$results/attack.txt"
		while [ "$turn" -le "${COUNT:-5}" ]; do
			echo "attack: turn $turn of ${COUNT:-5}" >&2
			heading "'Attack'" 1 >>"$results/attack.txt.new"
			# A turn in which an attack does not pass is a result, which is kept; one that could not be measured is none.
			"$bin/attack" -results >"$bin/attack.turn" || {
				grep -q '^# FAIL' "$bin/attack.turn"
				status=1
			}
			cat "$bin/attack.turn" >>"$results/attack.txt.new"
			turn=$((turn + 1))
		done
		mv "$results/attack.txt.new" "$results/attack.txt"
		;;
	core)
		measure core . '^Benchmark(GetFree|Split|Lookup|Parallel|Small|Writer|Mixed|Adapt|Chaos|Record)$' 100ms "${COUNT:-5}"
		measure burst . '^BenchmarkBurstAfterGC$' 100x "${COUNT:-5}"
		;;
	rpc)
		measure unary ./rpc '^BenchmarkUnary$' 150ms "${COUNT:-5}"
		measure stream ./rpc '^BenchmarkStream$' 100ms "${COUNT:-5}"
		measure floor ./rpc '^BenchmarkFloor$/^tls=off$/^size=(100|16384|1048576)$/^callers=(8|64)$' 150ms "${COUNT:-5}"
		;;
	neutral)
		go build -o "$bin/neutral" ./neutral
		begin "$results/neutral.txt"
		"$bin/neutral" -count "${COUNT:-5}" -others -floor >>"$results/neutral.txt.new"
		mv "$results/neutral.txt.new" "$results/neutral.txt"
		for kind in client burst; do
			begin "$results/neutral-$kind.txt"
			"$bin/neutral" -bench "$kind" -count "${COUNT:-5}" >>"$results/neutral-$kind.txt.new"
			mv "$results/neutral-$kind.txt.new" "$results/neutral-$kind.txt"
		done
		;;
	idle) measure idle ./rpc '^BenchmarkIdle$' 1x "${COUNT:-5}" ;;
	smb)
		measure script ./smb '^Benchmark(Script|Mixed)$' 200ms "${COUNT:-5}"
		measure samba ./smb '^Benchmark(Samba|Delayed)$' 200ms "${COUNT:-5}"
		;;
	calls) # of 1 MiB, with clients that do less than any must; not among those that run without being named
		mkdir -p "$results/calls" "$bin/calls"
		measure calls/smb ./smb 'Samba/mode=(plain|encrypted)/op=.*/shape=seq-1M/|Floor/op=(read|write|create)|Libsmb2|Files/mode=plain/op=create-write-4K' 300x "${COUNT:-5}"
		;;
	least) # calls of 1 MiB, eight in flight, with a client that does what every client must; not among those that run without being named
		mkdir -p "$results/calls" "$bin/calls"
		measure calls/least ./smb 'Samba/mode=(plain|encrypted)/op=.*/shape=seq-1M/goroutines=8/|Least' 600x "${COUNT:-5}"
		;;
	web) # servers beside connect-go, a minute a turn; not among those that run without being named
		go build -o "$bin/web" ./web
		begin "$results/web.txt"
		{
			heading "'Web'" "${COUNT:-5}"
			processor
			"$bin/web" -turns "${COUNT:-5}" -first "$kept"
		} >>"$results/web.txt.new"
		mv "$results/web.txt.new" "$results/web.txt"
		;;
	libraries) # that require grpc-go's types, over the stock ClientConn and over rpc, a minute a turn; not among those that run without being named
		mkdir -p "$results/libraries" "$bin/libraries"
		measure libraries/etcd ../interop/etcd . 400ms "${COUNT:-5}"
		measure libraries/bigtable ../interop/bigtable . 150ms "${COUNT:-5}"
		measure libraries/others ../interop/libraries . 150ms "${COUNT:-5}"
		;;
	rclone) # as shipped and with smb/gosmb2, two minutes a turn; not among those that run without being named
		mkdir -p "$results/rclone" "$bin/rclone"
		(
			[ ! -w /dev/shm ] || export TMPDIR=/dev/shm # files in memory
			measure rclone/copy ../interop/rclone '^BenchmarkCopy$' 1x "${COUNT:-5}"
		)
		;;
	files) measure files ./smb '^Benchmark(Files|Tree)$' 200ms "${COUNT:-5}" ;;
	*)
		echo "run.sh: there is no \"$what\"; there are: core rpc neutral idle smb files http attack calls least web libraries rclone" >&2
		exit 2
		;;
	esac
done
[ -z "${RESULTS:-}" ] || exit "$status"
echo
for page in ../docs/performance.md ../docs/smb.md ../docs/h2http.md ../docs/h2.md ../docs/rpc.md ../docs/migrate-grpc.md ../README.md; do
	go run ./claims -w "$page"
done
echo "docs/performance.md, docs/smb.md, docs/h2http.md, docs/h2.md, docs/rpc.md, docs/migrate-grpc.md and README.md have the new figures." >&2
exit "$status"
