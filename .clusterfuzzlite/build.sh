#!/bin/bash -eu
# Builds the fuzz targets for ClusterFuzzLite with their kept seeds. The builder makes a package of a target's own test file, so
# targets of external test packages (package x_test) are left to `make fuzz`.
go install github.com/AdamKorcz/go-118-fuzz-build@v0.0.0-20250520111509-a70c2aa677fa
git grep -lE '^func Fuzz' -- '*_test.go' | while read -r file; do
	grep -qE '^package [a-z0-9]+_test' "$file" && continue
	dir=$(dirname "$file")
	path=$(cd "$dir" && go list .)
	(cd "$dir" && go get github.com/AdamKorcz/go-118-fuzz-build/testing@v0.0.0-20250520111509-a70c2aa677fa)
	grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | sed 's/func //' | while read -r target; do
		(cd "$dir" && compile_native_go_fuzzer "$path" "$target" "$(echo "$dir" | tr / _)_$target")
		seeds=$dir/testdata/fuzz/$target
		[ ! -d "$seeds" ] || zip -qj "$OUT/$(echo "$dir" | tr / _)_${target}_seed_corpus.zip" "$seeds"/*
	done
done
