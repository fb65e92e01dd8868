#!/bin/sh
# vulnerabilities.sh GOVULNCHECK installs that version of govulncheck in bin, and runs it in each module that a release tags. It asks
# vuln.go.dev or, where that cannot be reached, the newest golang.org/x/vulndb that the module proxy has, whose date it prints: the reports
# are in it as files of OSV, which govulncheck takes for a database.
#
# It fails for what our code reaches in modules that can be raised. Advisories of the standard library, which are those of this machine's Go,
# and those that no version mends are printed. Which functions are reached is looked for, which takes up to half a minute a module, only where
# a package that is imported has an advisory and is not the standard library's.
set -u
cd "$(dirname "$0")/.." || exit
export GOWORK=off
db=https://vuln.go.dev
if ! curl -sfm 10 -o /dev/null $db/index/db.json; then
	module=$(go mod download -json golang.org/x/vulndb@latest) || {
		echo "govulncheck: neither vuln.go.dev nor golang.org/x/vulndb can be reached" | tee -a "${TARN_LEFT_OUT:-/dev/null}"
		exit 0
	}
	db=file://$(echo "$module" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')/data/osv
	date=$(echo "$module" | sed -n 's/.*"Version": ".*-\(....\)\(..\)\(..\)......-.*",/\1-\2-\3/p')
	echo "govulncheck: vuln.go.dev cannot be reached: golang.org/x/vulndb of $date"
fi
bin=$PWD/bin
GOBIN=$bin go install "$1" || exit

status=0
go=''
for module in $(ci/modules.sh tagged); do
	echo "govulncheck $module"
	found=$(cd "$module" && "$bin/govulncheck" -db "$db" -scan package ./...)
	code=$?
	[ $code != 0 ] || continue
	# 3 is for advisories that are found; each names what has it, and the versions that mend it.
	if [ $code = 3 ] && std=$(echo "$found" | awk '
		/^Vulnerability #/ { id = $3 }
		/^  [^ ]/ { std = /^  Standard library/ }
		/^    Found in: / { if (std) found++; else other++; where = $3 }
		/^    Fixed in: / && std { print "  " id " " where ", mended in " $3 }
		END { exit !found || other }'); then
		go="$go$std
"
		continue
	fi
	found=$(cd "$module" && "$bin/govulncheck" -db "$db" ./...)
	code=$?
	if [ $code = 0 ] || { [ $code = 3 ] && echo "$found" | awk '
		/^  Standard library/ { std = 1 }
		/^  Module: / { std = 0 }
		/^    Fixed in: / { if (std || /N\/A/) printed++; else failed++ }
		END { exit !printed || failed }'; }; then
		echo "$found" | sed '/^ *#[0-9]*: /d' # without the hundreds of ways to each
	else
		echo "$found"
		status=1
	fi
done
[ -z "$go" ] || { echo "this machine's Go has, in packages that are imported:" && printf %s "$go" | sort -u; }
exit $status
