#!/bin/sh
# Prepares a release: writes one version into every published module's requirements, commits, and tags
# all published modules together.
#
#   ci/release.sh v0.1.0
#
# Nothing is pushed. `examples` is in the workspace and is not tagged: it is not imported.
set -eu
cd "$(dirname "$0")/.."
version=${1:?usage: ci/release.sh vX.Y.Z}
echo "$version" | grep -Eq '^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$' || { echo "release: $version is no semantic version" >&2; exit 2; }
[ -z "$(git status --porcelain)" ] || { echo "release: the work tree has changes" >&2; exit 1; }
module=github.com/tarn-go/tarn
for dir in $(ci/modules.sh published); do
	(cd "$dir" && for path in $(GOWORK=off go mod edit -json | sed -n 's/.*"Path": "\('"$module"'[^"]*\)".*/\1/p' | sort -u); do
		[ "$path" = "$(GOWORK=off go list -m)" ] || GOWORK=off go mod edit -require "$path@$version"
	done && GOWORK=off go mod tidy)
done
git diff --quiet || git commit -qam "release: $version"
for dir in $(ci/modules.sh published); do
	case $dir in
	.) git tag -a "$version" -m "$version" ;;
	examples) ;;
	*) git tag -a "$dir/$version" -m "$version" ;;
	esac
done
git tag --points-at HEAD
