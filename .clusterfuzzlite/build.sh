#!/bin/bash -eu
# Builds the fuzz targets for ClusterFuzzLite, with their seeds (ci/tools/libfuzzer). Git may refuse the tree here, which is another user's.
export GOWORK=off GOFLAGS=-buildvcs=false
builder=$(mktemp -d)/libfuzzer
(cd ci/tools && go build -o "$builder" ./libfuzzer)
grep -rlE --exclude-dir=bin --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | xargs "$builder" "$OUT"
