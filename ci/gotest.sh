#!/bin/sh
# gotest.sh ARGUMENTS runs gotestsum, which runs failed tests again and nothing else. So a package fails nevertheless if its
# binary ended before its tests had (a fatal error, a signal, os.Exit), because the tests behind have not run, or failed
# without a failed test (in TestMain), because nothing is left to run again.
set -u
events=$(mktemp)
trap 'rm -f "$events"' EXIT
"$(dirname "$0")/../bin/gotestsum" --jsonfile "$events" "$@" || exit
awk '
{ test = match($0, /"Test":"[^"]*"/); pkg = match($0, /"Package":"[^"]*"/) ? substr($0, RSTART + 11, RLENGTH - 12) : "" }
/^[{]("Time":"[^"]*",)?"Action":"run"/ { running[pkg]++ }
/^[{]("Time":"[^"]*",)?"Action":"(pass|skip|fail)"/ && test { running[pkg]-- }
/^[{]("Time":"[^"]*",)?"Action":"fail"/ && test { failed[pkg] = 1 }
/^[{]("Time":"[^"]*",)?"Action":"fail"/ && !test {
	if (running[pkg] > 0 || !failed[pkg]) { print "=== Errors\n" pkg ": the test binary failed by itself; see its first run"; bad = 1 }
	running[pkg] = failed[pkg] = 0
}
END { exit bad }' "$events"
