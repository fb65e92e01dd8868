#!/bin/sh
# Prints, from the folder with the logs of make test, the tests that ran again, whether or not they passed then, and what failed:
# up to 100 lines of each check, so that the log's end says why. Removes the folder.
set -eu
again=$(cat "$1"/again.* 2>/dev/null | sort -u)
if [ -n "$again" ]; then
	echo
	echo "RAN AGAIN: these tests failed among others and were run by themselves"
	echo "$again" | sed 's/^/  /'
fi
for log in "$1"/*.failed; do
	[ -e "$log" ] || continue
	echo
	echo "FAILED: $(basename "$log" .failed)"
	lines=$(awk '/=== (Failed|Errors)$/ { on = 1 } /: DONE / { on = 0 } on { print }' "$log" | head -100)
	if [ -n "$lines" ]; then printf '%s\n' "$lines"; else tail -30 "$log"; fi
done
rm -rf "$1"
