#!/bin/sh
# Prepares a release: tags all published modules together, each with go.mod and go.sum as a user gets them.
#
#   ci/release.sh v0.1.0
#
# On the main branch a module finds the others by replace directives, so that it is tested with this tree. What is
# tagged must not have them: `go install .../cmd/tarn@v0.1.0` refuses a module with replace directives, and
# requirements on v0.0.0 cannot be met. So the script makes commits beside the branch, one a module, in the order of
# their requirements: each requires the version that is being released, and has the checksums of what was tagged
# before. Then it builds every module as it was tagged. Nothing is pushed; the branch and the work tree stay as they are.
# If a step fails no tag is left, so that the script can run again; the last line is the push that publishes all tags or none.
# `examples` is in the workspace and is not tagged: it is not imported.
set -eu
cd "$(dirname "$0")/.."
version=${1:?usage: ci/release.sh vX.Y.Z}
echo "$version" | grep -Eq '^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$' || { echo "release: $version is no semantic version" >&2; exit 2; }
[ -z "$(git status --porcelain)" ] || { echo "release: the work tree has changes" >&2; exit 1; }
tagged=$(git tag -l "$version" "*/$version")
# shellcheck disable=SC2086 # the tags on one line
[ -z "$tagged" ] || {
	echo "release: there are tags of $version already:" $tagged >&2
	echo "release: what was pushed stays as it is and the next version is released; if nothing was pushed: git tag -d" $tagged >&2
	exit 1
}
module=github.com/tarn-go/tarn
repository=$(git rev-parse --path-format=absolute --git-common-dir)
work=$(mktemp -d)
tags=
finished=
leave() {
	cd /
	# The last of them may not have been made.
	# shellcheck disable=SC2086 # one argument a tag
	[ -n "$finished" ] || [ -z "$tags" ] || git --git-dir="$repository" tag -d $tags || :
	chmod -R u+w "$work"
	rm -rf "$work"
	git --git-dir="$repository" worktree prune
}
trap leave EXIT
trap 'exit 1' HUP INT TERM
git worktree add -q --detach "$work/tree"

# The go command takes our own modules from this repository and all others from where it has them.
export GOWORK=off GOFLAGS=-mod=mod GOPRIVATE=$module
GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
export GOPROXY GOMODCACHE="$work/modules"
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$repository.insteadOf" GIT_CONFIG_VALUE_0="https://$module"

cd "$work/tree"
# ours lists the modules of this repository that the module in a folder requires.
ours() { (cd "$1" && go mod edit -json) | sed -n '/"Require"/,/^\t\]/s|.*"Path": "\('"$module"'[^"]*\)".*|\1|p'; }
tag() { case $1 in .) echo "$version" ;; *) echo "$1/$version" ;; esac; }
folder() { case $1 in "$module") echo . ;; *) echo "${1#"$module"/}" ;; esac; }

left=$(ci/modules.sh tagged | grep -vx examples)
while [ -n "$left" ]; do
	later=
	for dir in $left; do
		ready=1
		for path in $(ours "$dir"); do
			git rev-parse -q --verify "refs/tags/$(tag "$(folder "$path")")" > /dev/null || ready=
		done
		[ -n "$ready" ] || { later="$later $dir"; continue; }
		(
			cd "$dir"
			for path in $(go mod edit -json | sed -n '/"Replace"/,$s|.*"Path": "\('"$module"'[^"]*\)".*|\1|p'); do go mod edit -dropreplace "$path"; done
			for path in $(ours .); do go mod edit -require "$path@$version"; done
			go mod tidy
			go build -o /dev/null ./...
			git add go.mod
			[ ! -e go.sum ] || git add go.sum
		)
		git diff --cached --quiet || git commit -qm "release: $dir $version"
		tags="$tags $(tag "$dir")" # before the tag is made: a signal during git ends the script when git has ended
		git tag -a "$(tag "$dir")" -m "$version"
		tag "$dir"
	done
	[ "$later" != " $left" ] || { echo "release: requirements form a cycle: $left" >&2; exit 1; }
	left=${later# }
done
finished=1
echo "git push --atomic origin$tags"
