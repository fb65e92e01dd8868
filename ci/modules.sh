#!/bin/sh
# Lists the repository's modules, a folder a line.
#
#   modules.sh            all of them
#   modules.sh published  those that users may require: they share a version and go.work
#   modules.sh private    those with a go.work of their own: peers, suites, benchmarks
#   modules.sh tagged     those that a release tags: the published ones, and rpc/hyper, rpc/xds and smb/rclone, which are tested with the
#                         private ones: see their go.work
#   modules.sh tools      the versions of tools, and tools of our own
set -eu
cd "$(dirname "$0")/.."
for mod in $(git ls-files 'go.mod' '*/go.mod'); do
	dir=$(dirname "$mod")
	kind=published
	[ "$dir" = . ] || [ ! -f "$dir/go.work" ] || kind=private
	[ "$dir" != ci/tools ] || kind=tools
	[ "${1:-}" != tagged ] || [ "$kind" = tools ] || { [ "$kind" = private ] && [ "$dir" != rpc/hyper ] && [ "$dir" != rpc/xds ] && [ "$dir" != smb/rclone ]; } || kind=tagged
	[ "${1:-$kind}" = "$kind" ] && echo "$dir"
done
exit 0
