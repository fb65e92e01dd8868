#!/bin/sh
# Prints again, from the folder with the logs of make test's failed checks, what failed: up to 100 lines of each,
# so that the log's end tells why. Removes the folder.
set -eu
for log in "$1"/*.failed; do
	[ -e "$log" ] || continue
	echo
	echo "FAILED: $(basename "$log" .failed)"
	lines=$(awk '/--- FAIL|panic:|fatal error:|DATA RACE|: # / { on = 1 } on { print } /: FAIL\t/ { if (!on) print; on = 0 }' "$log" | head -100)
	if [ -n "$lines" ]; then printf '%s\n' "$lines"; else tail -30 "$log"; fi
done
rm -rf "$1"
