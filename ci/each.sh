#!/bin/sh
# each.sh TARGET... makes one target after the other, also after one has failed. At the end it prints how long each took, which
# tests were left out because a program is missing, and which targets failed.
set -u
TARN_LEFT_OUT=${TARN_LEFT_OUT:-$(mktemp)}
export TARN_LEFT_OUT
took='' failed=''
for target; do
	echo "== $target"
	begun=$(date +%s)
	"${MAKE:-make}" --no-print-directory "$target" || failed="$failed $target"
	took="$took $target $(($(date +%s) - begun))s"
done
if [ -s "$TARN_LEFT_OUT" ]; then
	echo
	echo "LEFT OUT: $(sort -u "$TARN_LEFT_OUT" | wc -l) tests did not run"
	sort -u "$TARN_LEFT_OUT" | sed 's/^/  /'
fi
rm -f "$TARN_LEFT_OUT"
echo "TOOK:$took"
[ -z "$failed" ] || echo "FAILED:$failed"
[ -z "$failed" ]
