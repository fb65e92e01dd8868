#!/bin/sh
# trees.sh VERSION|HEAD checks out, for each command that a release has as a binary, the commit that its module's tag names: its go.mod
# has no replace directives, and Go finds the version there, so the binary is the one that `go install` makes. With HEAD they are built
# from the branch. The trees are bin/release/tree/COMMAND.
set -eu
cd "$(dirname "$0")/.."
version=${1:?usage: ci/trees.sh VERSION|HEAD}
while read -r command module; do
	tree=bin/release/tree/$command
	rm -rf "$tree"
	name=HEAD
	[ "$version" = HEAD ] || name=refs/tags/$module/$version
	commit=$(git rev-parse --verify "$name^{commit}") || { echo "trees: there is no $name" >&2; exit 1; }
	git clone -q --shared --no-checkout . "$tree" # in a worktree Go finds no version
	git -C "$tree" checkout -q --detach "$commit"
	echo "$command: $module at $commit"
done <<- END
	tarn cmd/tarn
	tarnvet vet
	rclone-tarn smb/rclone
END
