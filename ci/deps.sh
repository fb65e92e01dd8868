#!/usr/bin/env bash
# Installs the Debian packages whose programs the tests talk to, where it may; otherwise names them.
# A test whose program is missing is named and counted when it is left out, and fails under CI=true.
set -euo pipefail

missing=()
need() { command -v "$1" > /dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing+=("$2"); }
need smbd samba
need pdbedit samba-common-bin
need smbclient smbclient
need krb5kdc krb5-kdc
need kadmin.local krb5-admin-server
need kinit krb5-user
need chromium chromium

[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
	echo "installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq > /dev/null
	apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
	exit 0
fi
echo "not installed, and this user may not install them: ${missing[*]}"
echo "tests that need them will be named and left out"
