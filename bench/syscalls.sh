#!/bin/sh
# Counts the system calls that a unary call of 100 bytes costs, client and server together, with
# strace, and keeps the result in results/syscalls.txt. Tracing slows a program down and so changes
# how many calls share a system call: the figures are valid only relative to each other.
set -eu
cd "$(dirname "$0")"
command -v strace >/dev/null || {
	echo "syscalls.sh: needs strace" >&2
	exit 1
}
calls=${CALLS:-5000}
mkdir -p results
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -c -o "$dir/rpc" ./rpc
{
	echo "# $(go version), $(date -u '+%Y-%m-%d %H:%M UTC'): system calls a unary call of 100 B, both sides"
	printf '%-12s %8s %8s %8s %8s %8s\n' peer callers read write other total
	for callers in 1 8 64; do
		for peer in tarn grpc grpc-tuned connect; do
			(cd rpc && strace -f -c -U calls,name -o "$dir/count" "$dir/rpc" -test.run '^$' \
				-test.bench "^BenchmarkUnary\$/^tls=off\$/^size=100\$/^callers=$callers\$/^peer=$peer\$" \
				-test.benchtime "${calls}x" >"$dir/out")
			grep -q "peer=$peer" "$dir/out" || continue
			# The run of one call that comes first makes four a caller, and each caller warms up once in both.
			awk -v n="$((calls + 6 * callers))" -v peer="$peer" -v callers="$callers" '
				$1 !~ /^[0-9]+$/ || $2 == "total" { next }
				$2 ~ /^(read|readv|recvfrom|recvmsg)$/ { r += $1; next }
				$2 ~ /^(write|writev|sendto|sendmsg)$/ { w += $1; next }
				{ o += $1 }
				END { printf "%-12s %8d %8.2f %8.2f %8.2f %8.2f\n", peer, callers, r/n, w/n, o/n, (r+w+o)/n }
			' "$dir/count"
		done
	done
} | tee results/syscalls.txt
