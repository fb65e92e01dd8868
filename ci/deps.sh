#!/usr/bin/env bash
# Installs the Debian packages whose programs the tests talk to.
#
# As root on Debian it lists the packages that are missing and installs them. TARN_NO_INSTALL=1 leaves the
# machine as it is. In every other case, without network too, it names what is missing and goes on: tests
# that need a missing program are left out and listed at the end of `make test`; with CI=true they fail.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

# program package: the tests need the first, or one of several, and Debian's second has it. A path is that of a file.
needs="
smbd samba
pdbedit samba-common-bin
smbclient smbclient
krb5kdc krb5-kdc
kadmin.local krb5-admin-server
kinit krb5-user
/usr/share/samba/setup/ad-schema samba-ad-provision
/usr/lib/*/samba/ldb/samldb.so samba-dsdb-modules
/usr/lib/*/samba/vfs/dfs_samba4.so samba-vfs-modules
winbindd winbind
/usr/lib/python3/dist-packages/impacket/__init__.py python3-impacket
/usr/lib/python3/dist-packages/markdown python3-markdown
/usr/lib/python3/dist-packages/dns python3-dnspython
chromium|chromium-browser|google-chrome|chrome chromium
h2load nghttp2-client
nghttp nghttp2-client
litmus litmus
nginx nginx-light
haproxy haproxy
curl curl
etcd etcd-server
npm npm
node nodejs
shellcheck shellcheck
/usr/lib/python3/dist-packages/httpx python3-httpx
/usr/lib/python3/dist-packages/h2 python3-h2
/usr/lib/python3/dist-packages/grpc python3-grpcio
/usr/lib/python3/dist-packages/google/protobuf python3-protobuf
"
# What tests build with TARN_LONG=1: gRPC's C++ implementation, and tonic, for which Debian 12 has no recent enough cargo.
[ "${TARN_LONG:-}" != 1 ] || needs+="
g++ g++
protoc protobuf-compiler
grpc_cpp_plugin protobuf-compiler-grpc
pkg-config pkg-config
/usr/include/grpcpp/grpcpp.h libgrpc++-dev
/usr/include/google/protobuf/message.h libprotobuf-dev
"

# What tests load from npm: the accessibility checker for the debug page, clients of Connect and gRPC-Web, and gRPC's server for Node.
modules="axe-core@4.10.3 @connectrpc/connect@2.1.0 @connectrpc/connect-node@2.1.0 @connectrpc/connect-web@2.1.0 @bufbuild/protobuf@2.9.0 grpc-web@1.5.0 xhr2@0.2.1 @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1"
npm_modules() {
	local name absent=
	for name in $modules; do
		[ -d "bin/npm/node_modules/${name%@*}" ] || absent=1
	done
	[ -n "$absent" ] || return 0
	if [ "${TARN_NO_INSTALL:-}" = 1 ]; then
		echo "not installed from npm, because TARN_NO_INSTALL=1: $modules; tests that need them are left out"
		return
	fi
	# Without network, npm by itself repeats each request for more than a minute: eight minutes in all.
	local retries=(--fetch-retries 1 --fetch-retry-mintimeout 1000 --fetch-retry-maxtimeout 2000)
	[ "${CI:-}" != true ] || retries=()
	# shellcheck disable=SC2086 # one argument a module
	npm install "${retries[@]}" --silent --no-fund --no-audit --no-save --prefix bin/npm $modules > /dev/null 2>&1 ||
		echo "could not be installed from npm: $modules; tests that need them are left out"
}

# A newer smbd with its libraries, in bin/samba, for the tests of SMB3's POSIX extensions: Debian 12's Samba has none. It is unpacked from
# Debian's backports, and not installed.
posix_samba() {
	[ ! -x bin/samba/usr/sbin/smbd ] || return 0
	if [ "${TARN_NO_INSTALL:-}" = 1 ]; then
		echo "not unpacked, because TARN_NO_INSTALL=1: a newer Samba; tests that need it are left out"
		return
	fi
	local dir release uri options
	dir=$(mktemp -d)
	chmod 755 "$dir"
	mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial"
	# shellcheck source=/dev/null
	release=$(. /etc/os-release 2> /dev/null && echo "${VERSION_CODENAME:-}")
	# shellcheck disable=SC2016 # apt-get expands it
	uri=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $release" "Created-By: Packages" 2> /dev/null | head -n 1)
	echo "deb $uri $release-backports main" > "$dir/sources.list"
	options=(-qq -o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State=$dir/state" -o "Dir::Cache=$dir/cache")
	if [ -n "$uri" ] && apt-get "${options[@]}" update > "$dir/log" 2>&1 &&
		(cd "$dir" && apt-get "${options[@]}" -t "$release-backports" download \
			samba samba-libs libldb2 libtalloc2 libtevent0 libtdb1 libwbclient0) > "$dir/log" 2>&1; then
		local package
		for package in "$dir"/*.deb; do dpkg-deb -x "$package" "$dir/root"; done
		mkdir -p bin && rm -rf bin/samba && mv "$dir/root" bin/samba
	else
		echo "could not be unpacked from Debian's backports: a newer Samba; tests that need it are left out"
	fi
	rm -rf "$dir"
}

# What is not installed for the whole machine.
beside() { npm_modules; posix_samba; }

installed() {
	local programs program
	IFS='|' read -ra programs <<< "$1"
	for program in "${programs[@]}"; do
		command -v "$program" > /dev/null 2>&1 || [ -x "/usr/sbin/$program" ] || compgen -G "$program" > /dev/null && return
	done
	return 1
}
find_missing() {
	missing=()
	while read -r programs package; do
		[ -z "$programs" ] || installed "$programs" || missing+=("$package")
	done <<< "$needs"
	[ ${#missing[@]} -eq 0 ] || mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
}
find_missing
[ ${#missing[@]} -eq 0 ] && { beside; exit 0; }

leave() {
	echo "$1: ${missing[*]}"
	echo "tests that need them are left out, and listed at the end"
	[ "${TARN_NO_INSTALL:-}" != 1 ] || beside # names them, too
	exit 0
}
[ "${TARN_NO_INSTALL:-}" != 1 ] || leave "not installed, because TARN_NO_INSTALL=1"
[ "$(id -u)" = 0 ] || leave "not installed, and this user may not install them"
command -v apt-get > /dev/null 2>&1 || leave "not installed, and there is no apt-get to install them with"

echo "installing Debian packages: ${missing[*]} (TARN_NO_INSTALL=1 leaves the machine as it is)"
# Debian starts a server that it installs. The tests start their own, so nothing is to be left running.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod +x "$policy"
	trap 'rm -f "$policy"' EXIT
fi
# LC_ALL: apt's messages are looked for in the log.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
log=$(mktemp)
get() { apt-get install -y -qq --no-install-recommends "$@"; }
if ! { apt-get update -qq && get "${missing[@]}"; } > "$log" 2>&1; then
	tail -n 5 "$log"
	# One by one: a package that this release of Debian or Ubuntu does not have keeps the others from being installed.
	if grep -qE 'Unable to locate package|no installation candidate' "$log"; then
		for package in "${missing[@]}"; do get "$package" > /dev/null 2>&1; done
		find_missing
	fi
	[ ${#missing[@]} -eq 0 ] || echo "could not be installed: ${missing[*]}; tests that need them are left out, and listed at the end"
fi
rm -f "$log"
beside
