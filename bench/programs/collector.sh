#!/usr/bin/env bash
# Builds the OpenTelemetry Collector's receiver of OTLP as it is and over packages rpc and h2http, and measures both
# (docs/evidence/programs.md).
#
#   ./programs/collector.sh [-turns 5]      the sources come from the module proxy; WORK=DIR keeps them and the programs there
#   ./programs/collector.sh tests           runs the own tests of the modules that are moved, as they are and moved, instead
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD tarn=$(git rev-parse --show-toplevel)
if [ -z "${WORK:-}" ]; then WORK=$(mktemp -d); trap 'rm -rf "$WORK"' EXIT; fi
mkdir -p "$WORK"
export GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
collector=go.opentelemetry.io/collector
modules=(config/{configgrpc,confighttp,configmiddleware} extension/extensionmiddleware{,/extensionmiddlewaretest} receiver/otlpreceiver)
moved=("${modules[@]##*/}") # their folders here
moved=("${moved[@]/#/./}")

build() {
	local side=$WORK/src-$1 m
	[ ! -x "$WORK/$1/collector" ] || return 0
	rm -rf "$side" && mkdir -p "$side/program" && cp "$here/collector/main.go.txt" "$side/program/main.go"
	cd "$side/program"
	go mod init program
	go mod edit -require=$collector/receiver/otlpreceiver@v0.165.0
	go mod tidy
	for m in pdata pdata/pprofile "${modules[@]}"; do
		go mod download "$collector/$m" # one of them is for tests alone
		cp -r "$(go list -m -f '{{.Dir}}' "$collector/$m")" "$side/${m##*/}"
	done
	cd "$side" && chmod -R u+w . && find pdata pprofile -name '*_test.go' -delete
	sed -i '/^replace /d' ./*/go.mod # of modules that are not beside them here
	go work init ./program ./pdata ./pprofile "${moved[@]}"
	if [ "$1" = moved ]; then # of a copy, because go work sync changes the go.mod of each module of a workspace
		mkdir tarn && git -C "$tarn" archive HEAD | tar -xC tarn
		go work use ./tarn ./tarn/rpc
	fi
	go work sync
	if [ "$1" = moved ]; then
		# What only registers services takes a grpc.ServiceRegistrar.
		sed -i 's/(s \*grpc\.Server, srv/(s grpc.ServiceRegistrar, srv/' pdata/*/*/grpc.go pdata/internal/otelgrpc/*_service.go pprofile/pprofileotlp/grpc.go
		(cd "$tarn" && env -u GOFLAGS GOWORK= go build -o "$WORK/tarn" ./cmd/tarn)
		"$WORK/tarn" migrate "${moved[@]/%//...}"
		# HTTP through h2http.
		sed -i 's#^\tserver\.SetKeepAlivesEnabled(#\tif err = h2http.ConfigureServer(server, nil); err != nil {\n\t\treturn nil, err\n\t}\n&#; s#^\t"github.com/rs/cors"#&\n\t"github.com/tarn-go/tarn/h2http"#' confighttp/server.go
	fi
	mkdir -p "$WORK/$1" && go build -o "$WORK/$1/collector" ./program
	cd "$here"
}
build stock
build moved
if [ "${1:-}" = tests ]; then
	for side in stock moved; do
		(cd "$WORK/src-$side" && go test -vet=off -count=1 -json "${moved[@]/%//...}" >"$WORK/$side/tests.json") || true
		echo "$side: $(grep -c '"Action":"pass".*"Test":' "$WORK/$side/tests.json") pass"
		grep -e '"Action":"fail"' -e '"Action":"skip".*"Test":' "$WORK/$side/tests.json" || true
	done
	exit
fi
echo "Lines of the Collector's that differ: $(diff -ru -x 'go.*' -x tarn -x '*_test.go' "$WORK/src-stock" "$WORK/src-moved" | grep -c '^[-+][^-+]')"
echo
cd .. && env -u GOFLAGS go run ./programs -collector "$WORK" "$@"
