#!/usr/bin/env bash
# Builds etcd as it is and over package rpc, and measures both (docs/evidence/programs.md).
#
#   ./programs/etcd.sh [-turns 5]      the sources come from the module proxy; WORK=DIR keeps them and the programs there
#
# The benchmark is that of v3.6.8, the last version whose root module the proxy has, with the package report of that version.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD tarn=$(git rev-parse --show-toplevel)
if [ -z "${WORK:-}" ]; then WORK=$(mktemp -d); trap 'rm -rf "$WORK"' EXIT; fi
mkdir -p "$WORK"
export GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
version=v3.7.3 old=v3.6.8

# source MODULE VERSION FOLDER copies a module's files
source_of() {
	local dir
	dir=$(cd "$WORK" && go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	mkdir -p "$3" && cp -r "$dir/." "$3" && chmod -R u+w "$3"
}
build() {
	local side=$WORK/src-$1
	[ ! -x "$WORK/$1/benchmark" ] || return 0
	rm -rf "$side"
	for m in api client/v3 client/pkg pkg server; do
		source_of "go.etcd.io/etcd/${m%/v3}/v3" $version "$side/$m"
	done
	source_of go.etcd.io/etcd/v3 $old "$side/root" && mv "$side/root/tools/benchmark" "$side/benchmark" && rm -rf "$side/root"
	source_of go.etcd.io/etcd/pkg/v3 $old "$side/pkg-old" && mv "$side/pkg-old/report" "$side/benchmark/report" && rm -rf "$side/pkg-old"
	grep -rl etcd/pkg/v3/report "$side/benchmark" | xargs sed -i 's#go.etcd.io/etcd/pkg/v3/report#go.etcd.io/etcd/v3/tools/benchmark/report#'
	cat >"$side/benchmark/go.mod" <<-END
		module go.etcd.io/etcd/v3/tools/benchmark
		go 1.26.0
		require (
			github.com/bgentry/speakeasy v0.2.0
			github.com/cheggaaa/pb/v3 v3.1.6
			github.com/dustin/go-humanize v1.0.1
			github.com/spf13/cobra v1.10.2
			go.etcd.io/etcd/api/v3 $version
			go.etcd.io/etcd/client/pkg/v3 $version
			go.etcd.io/etcd/client/v3 $version
			go.etcd.io/etcd/pkg/v3 $version
			go.etcd.io/etcd/server/v3 $version
			go.uber.org/zap v1.27.1
			golang.org/x/time v0.15.0
			google.golang.org/grpc v1.85.0
		)
	END
	cd "$side"
	go work init ./api ./client/v3 ./client/pkg ./pkg ./server ./benchmark
	if [ "$1" = moved ]; then # of a copy, because go work sync changes the go.mod of each module of a workspace
		mkdir tarn && git -C "$tarn" archive HEAD | tar -xC tarn
		go work use ./tarn ./tarn/rpc
	fi
	go work sync
	if [ "$1" = moved ]; then
		(cd "$tarn" && env -u GOFLAGS GOWORK= go build -o "$WORK/tarn" ./cmd/tarn)
		"$WORK/tarn" migrate ./client/v3/... ./server/... ./benchmark/... ./pkg/... || true # what is left is named, and done here:
		sed -i 's/^\(type registerHandlerFunc .*\)\*rpc\.ClientConn/\1*grpc.ClientConn/; s/h(ctx, gwmux, conn)/h(ctx, gwmux, rpc.AsGRPC(conn))/; s#^\t"github.com/tarn-go/tarn/rpc"#&\n\t"google.golang.org/grpc"#' server/embed/serve.go
		sed -i 's/grpc\.CustomCodec(&codec{})).*/rpc.ForceServerCodec(\&codec{}))/' server/etcdserver/api/v3rpc/grpc.go
		printf '\nfunc (c *codec) Name() string { return c.String() }\n' >>server/etcdserver/api/v3rpc/codec.go
	fi
	mkdir -p "$WORK/$1" && go build -o "$WORK/$1/" ./server ./benchmark
	cd "$here"
}
(cd "$WORK" && { [ -f go.mod ] || go mod init download 2>/dev/null; })
build stock
build moved
echo "Lines of etcd's that differ: $(diff -ru -x 'go.*' -x tarn "$WORK/src-stock" "$WORK/src-moved" | grep -c '^[-+][^-+]')"
echo
cd .. && env -u GOFLAGS go run ./programs -etcd "$WORK" "$@"
