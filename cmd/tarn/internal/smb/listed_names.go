package smb

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// useOwnNames adds to there, which is what a directory of the target lists, those of the wanted names that lead to entries listed under
// other names. Without this such files would be copied each time. Entries in another case stay in there as well: fold makes one name of
// both. Samba stores a file called "aux.c", but lists it as "AHY9U3~9.C".
func useOwnNames(to tree, dir string, wanted []string, there map[string]fs.FileInfo) {
	folded := make(map[string]bool, len(there))
	for listed := range there {
		folded[to.fold(listed)] = true
	}
	for _, name := range wanted {
		inOtherCase := folded[to.fold(name)]
		if there[name] != nil || !inOtherCase && !listedOtherwise(name) {
			continue
		}
		info, err := to.Lstat(path.Join(dir, name)) // a server may distinguish names by their case
		if err != nil {
			continue // it is not there, or copying it will fail, too
		}
		there[name] = info
	}
}

// listedOtherwise reports whether Samba lists a file of that name under a short name with "~", since Windows does not have the name.
func listedOtherwise(name string) bool {
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
		return true
	}
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	if n := len(base) - 1; n == 3 && base[n] >= '0' && base[n] <= '9' {
		base = base[:n] + "0"
	}
	return slices.Contains([]string{"CON", "PRN", "AUX", "NUL", "COM0", "LPT0"}, base)
}
