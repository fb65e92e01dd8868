#!/bin/sh
# Prints the tests that were left out, from the file that they were noted in, and removes it.
set -eu
if [ -s "$1" ]; then
	echo
	echo "LEFT OUT: $(sort -u "$1" | wc -l) tests did not run, or passed only by themselves"
	sort -u "$1" | sed 's/^/  /'
fi
rm -f "$1"
