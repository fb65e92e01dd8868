#!/bin/sh
# each.sh TARGET... makes one target after the other, also after one has failed. Of TARGET+TARGET+... the second and those after it are made one
# after the other beside the first, with less of the processors, and their output follows the first's. At the end it prints how long each
# took and how long of processors, which tests were left out because a program is missing, and which targets failed.
set -u
TARN_LEFT_OUT=${TARN_LEFT_OUT:-$(mktemp)}
export TARN_LEFT_OUT
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# one makes a target by the command that follows it, and records how long that took, and whether it failed.
one() {
	target=$1
	shift
	echo "== $target"
	begun=$(date +%s)
	times > "$results/$target"
	"$@" "${MAKE:-make}" --no-print-directory "$target" || printf ' %s' "$target" >> "$results/failed"
	times >> "$results/$target"
	# The second line of times is that of children: user and system, as 1m2.5s.
	processor=$(sed 's/[ms]/ /g' "$results/$target" | awk '{ used = $1 * 60 + $2 + $3 * 60 + $4 } NR == 2 { before = used } END { print int(used - before) }')
	printf ' %s %ss (%ss)' "$target" $(($(date +%s) - begun)) "$processor" >> "$results/took"
}
for targets; do
	first=${targets%%+*}
	beside=$(echo "${targets#"$first"}" | tr + ' ')
	for target in $beside; do
		one "$target" nice -n 5
	done > "$results/beside" 2>&1 &
	(one "$first" env) # apart, so that times has no more than its own
	wait
	cat "$results/beside"
done
if [ -s "$TARN_LEFT_OUT" ]; then
	echo
	echo "LEFT OUT: $(sort -u "$TARN_LEFT_OUT" | wc -l) tests did not run"
	sort -u "$TARN_LEFT_OUT" | sed 's/^/  /'
fi
rm -f "$TARN_LEFT_OUT"
echo "TOOK:$(cat "$results/took")"
[ ! -f "$results/failed" ] || echo "FAILED:$(cat "$results/failed")"
[ ! -f "$results/failed" ]
