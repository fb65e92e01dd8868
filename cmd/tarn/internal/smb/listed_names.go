package smb

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	client "github.com/tarn-go/tarn/smb"
)

// useOwnNames adds to there, which is what a directory of the target lists, those of the wanted names that lead to entries listed under
// other names. Without this such files would be copied each time. Entries in another case stay in there as well: fold makes one name of
// both. Others are removed: Samba stores a file called "aux.c", but lists it as "AHY9U3~9.C", and sync -delete would take what it has
// copied for something that the source does not have.
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
		if !inOtherCase {
			removeShortName(info, there)
		}
		there[name] = info
	}
}

// removeShortName removes the entry that describes the same file as info.
func removeShortName(info fs.FileInfo, there map[string]fs.FileInfo) {
	before := len(there)
	for listed, other := range there {
		if strings.Contains(listed, "~") && sameFile(info, other) {
			delete(there, listed)
		}
	}
	if len(there) == before { // it is being changed: which name it has is not known
		for listed := range there {
			if strings.Contains(listed, "~") {
				delete(there, listed)
			}
		}
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

// sameFile reports whether both describe one file.
func sameFile(x, y fs.FileInfo) bool {
	a, ok := x.Sys().(*client.FileStat)
	b, ok2 := y.Sys().(*client.FileStat)
	return ok && ok2 && x.IsDir() == y.IsDir() && a.EndOfFile == b.EndOfFile && a.CreationTime.Equal(b.CreationTime) &&
		a.LastWriteTime.Equal(b.LastWriteTime) && a.ChangeTime.Equal(b.ChangeTime)
}
