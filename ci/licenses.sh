#!/bin/sh
# licenses.sh writes, for each command that a release has as a binary, the licences of Go and of the other modules that it is made of, which
# ask for that: bin/release/licenses/COMMAND/LICENSES.txt, from the trees of trees.sh. A module may have code of others with a licence of
# its own: those of the folders of its packages, and of the folders above them, are in the list, too.
set -eu
cd "$(dirname "$0")/.."
release=$PWD/bin/release

# licences MODULE VERSION ROOT FOLDER, a folder of the module, which is in ROOT
licences() {
	found=
	for file in "$4"/*; do
		case ${file##*/} in
		*.go) ;;
		*[Ll][Ii][Cc][Ee][NnSs][SsCc][Ee]* | COPYING* | NOTICE* | PATENTS*)
			[ -f "$file" ] || continue
			found=1
			printf '\n======== %s %s: %s\n\n' "$1" "$2" "${file#"$3"/}"
			cat "$file"
			;;
		esac
	done
	[ "$found" ] || [ "$4" != "$3" ] || { echo "licenses: $1 $2 has no licence" >&2; exit 1; }
}

while read -r command folder; do
	out=$release/licenses/$command
	mkdir -p "$out"
	cd "$release/tree/$command/$folder"
	for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do
		GOOS=${platform%/*} GOARCH=${platform#*/} CGO_ENABLED=0 GOWORK=off \
			go list -deps -f '{{if .Module}}{{.Module.Path}} {{.Module.Version}} {{.Module.Dir}} {{.Dir}}{{end}}' .
	done > "$out/packages"
	grep -v '^github.com/tarn-go/tarn[/ ]' "$out/packages" | sort -u | while read -r module version root dir; do
		while [ "$dir" != "$root" ]; do
			echo "$module $version $root $dir"
			dir=${dir%/*}
		done
		echo "$module $version $root $root"
	done > "$out/folders"
	go env GOVERSION GOROOT | { read -r version; read -r root; echo "Go $version $root $root"; } >> "$out/folders"
	sort -u "$out/folders" | while read -r module version root dir; do
		licences "$module" "$version" "$root" "$dir"
	done > "$out/LICENSES.txt"
	rm "$out/packages" "$out/folders"
done <<- END
	tarn cmd/tarn
	tarnvet vet/cmd/tarnvet
	rclone-tarn smb/rclone/cmd/rclone-tarn
END
