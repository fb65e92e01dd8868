#!/bin/sh
# licenses.sh writes, for each command that a release has as a binary, the licences of Go and of the other modules that it is made of, which
# ask for that: bin/release/licenses/COMMAND/LICENSES.txt, from the trees of trees.sh.
set -eu
cd "$(dirname "$0")/.."
release=$PWD/bin/release

# licences MODULE VERSION FOLDER
licences() {
	none="$1 $2 has no licence"
	for file in "$3"/*; do
		case ${file##*/} in
		*[Ll][Ii][Cc][Ee][NnSs][SsCc][Ee]* | COPYING* | NOTICE* | PATENTS*)
			[ -f "$file" ] || continue
			none=
			printf '\n======== %s %s: %s\n\n' "$1" "$2" "${file##*/}"
			cat "$file"
			;;
		esac
	done
	[ -z "$none" ] || { echo "licenses: $none" >&2; exit 1; }
}

while read -r command folder; do
	out=$release/licenses/$command
	mkdir -p "$out"
	cd "$release/tree/$command/$folder"
	for os in linux darwin windows; do
		GOOS=$os CGO_ENABLED=0 GOWORK=off go list -deps -f '{{with .Module}}{{.Path}} {{.Version}} {{.Dir}}{{end}}' .
	done > "$out/modules"
	{ sort -u "$out/modules"; echo "Go $(go env GOVERSION GOROOT | tr '\n' ' ')"; } | grep -v '^github.com/tarn-go/tarn[/ ]' |
		while read -r module version dir; do licences "$module" "$version" "$dir"; done > "$out/LICENSES.txt"
	rm "$out/modules"
done <<- END
	tarn cmd/tarn
	tarnvet vet/cmd/tarnvet
	rclone-tarn smb/rclone/cmd/rclone-tarn
END
