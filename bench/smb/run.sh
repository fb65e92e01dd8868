#!/usr/bin/env bash
# Runs the SMB benchmarks and keeps what they print:
#   ./run.sh [COUNT]    script.txt needs nothing; samba.txt needs smbd, and smbclient to compare with
set -euo pipefail
cd "$(dirname "$0")"
count=${1:-3}
mkdir -p results
{ go version; nproc; uname -srm; } > results/machine.txt
go test -run '^$' -bench 'Script|Mixed' -benchtime 300ms -count "$count" . | tee results/script.txt
go test -run '^$' -bench 'Samba|Delayed' -benchtime 300ms -count "$count" -timeout 60m . | tee results/samba.txt
