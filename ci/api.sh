#!/usr/bin/env bash
# api.sh [BASE [MODULE...]] prints how the exported API of each tagged module, or of those named by their folders, differs from that of
# BASE, which is a commit or a tag; by default the latest version. "Incompatible changes" of a stable package are for the next major
# version.
#
# gorelease does this for one module and asks the module proxy for the base. So it says nothing before a version is published, and
# refuses the replace directives of the branch. This compares two trees of the repository by the same package (x/exp/apidiff).
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-$(git tag -l 'v*' --sort=-v:refname | head -n1)}
[ -n "$base" ] || { echo "api: there is no version yet; name a commit"; exit 0; }
shift || true
[ $# -gt 0 ] || mapfile -t modules < <(ci/modules.sh tagged | grep -vx examples)
[ $# -eq 0 ] || modules=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q --shared --no-checkout . "$work/tree"
git -C "$work/tree" checkout -q --detach "$(git rev-parse "$base^{commit}")"
export GOWORK=off
for dir in "${modules[@]}"; do
	module=$(cd "$dir" && go list -m)
	[ -f "$work/tree/$dir/go.mod" ] || { echo "$module: new"; continue; }
	(cd "$work/tree/$dir" && apidiff -m -w "$work/old" "$module")
	(cd "$dir" && apidiff -m -w "$work/new" "$module")
	apidiff -m "$work/old" "$work/new" > "$work/changes" 2> "$work/errors" || { cat "$work/errors" >&2; exit 1; }
	if [ -s "$work/changes" ]; then echo "$module"; sed 's/^/  /' "$work/changes"; else echo "$module: the same"; fi
done
