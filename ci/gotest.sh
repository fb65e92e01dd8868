#!/bin/sh
# gotest.sh ARGUMENTS runs go test with them, flags as -name=value, for continuous integration. A test that fails among others on a
# machine with two processors is run once more by itself and listed under RAN AGAIN: it has a defect, or what it tests has, but it
# does not keep everything else from landing. A data race, a panic, and a test binary that failed by itself count at once.
set -u
flags='' packages=''
for argument; do
	case $argument in
	-*) flags="$flags $argument" ;;
	*) packages="$packages $argument" ;;
	esac
done
events=$(mktemp)
again=$(mktemp)
trap 'rm -f "$events" "$again"' EXIT
# shellcheck disable=SC2086 # flags have no blanks
"$(dirname "$0")/../bin/gotestsum" --format pkgname --format-hide-empty-pkg --hide-summary skipped --rerun-fails=1 \
	--rerun-fails-max-failures=5 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race --rerun-fails-report="$again" \
	--jsonfile "$events" --packages "$packages" -- $flags || exit
if [ -s "$again" ]; then
	echo "RAN AGAIN:"
	sed 's/^/  /' "$again"
fi
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
