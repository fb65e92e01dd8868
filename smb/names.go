package smb

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// maxComponent is the longest component of a path, in UTF-16 units (MS-FSCC 2.1.5).
const maxComponent = 255

// maxPath is the longest path in UTF-16 units: CREATE has 16 bits for its length in bytes.
const maxPath = 32766

// remoteName converts a name, with "/" or "\", to the form that is sent: backslashes, none at either end, ""
// for the root. "." components are removed, ".." components resolved, and a name that is invalid on every
// server is refused with ErrName.
func remoteName(name string) (string, error) { return remoteNameOf(name, checkComponent) }

// remoteNameOf is remoteName whose components check accepts.
func remoteNameOf(name string, check func(part string) error) (string, error) {
	if !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
		return "", ErrName
	}
	if plainName(name) {
		return name, nil
	}
	parts := make([]string, 0, 8)
	for part := range strings.FieldsFuncSeq(name, isSeparator) {
		switch part {
		case ".":
			continue
		case "..":
			if len(parts) == 0 {
				return "", ErrName // outside the share
			}
			parts = parts[:len(parts)-1]
			continue
		}
		if err := check(part); err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	joined := strings.Join(parts, `\`)
	if utf16Units(joined) > maxPath {
		return "", ErrName
	}
	return joined, nil
}

func isSeparator(r rune) bool { return r == '/' || r == '\\' }

// plainName reports whether name is one component that needs no conversion.
func plainName(name string) bool {
	if name == "" || name[0] == '.' || len(name) > maxComponent {
		return false
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; c < ' ' || c >= utf8.RuneSelf || strings.IndexByte(`/\:*?"<>|`, c) >= 0 {
			return false
		}
	}
	return true
}

// checkComponent refuses what MS-FSCC 2.1.5 forbids in a component. A colon would separate the name of an
// alternate data stream.
func checkComponent(part string) error {
	for _, r := range part {
		if r < ' ' || strings.ContainsRune(`:*?"<>|`, r) {
			return ErrName
		}
	}
	return checkLength(part)
}

// checkLength refuses what is too long for a component. With the POSIX extensions nothing else is refused.
func checkLength(part string) error {
	if utf16Units(part) > maxComponent {
		return ErrName
	}
	return nil
}

// isEntryName reports whether a name that a server lists, or reports to a watcher, names one entry of a directory and can be sent back.
// A path would attack the program that joins it to another. A correct server may list a name that is none: Samba does, with "mangled
// names = no", if a file on its disk has a backslash in its name, and file systems such as NTFS have names with lone surrogates, which
// UTF-8 cannot express.
func isEntryName(name string) bool {
	return name != "" && name != "." && name != ".." && utf8.ValidString(name) && !strings.ContainsAny(name, "/\\\x00") &&
		(len(name) <= maxComponent || utf16Units(name) <= maxComponent)
}

// leftOutError is the error behind the names of a listing, or the changes of a watched directory, that isEntryName does not hold for.
type leftOutError struct {
	name string // the first one
	more int    // how many more
}

// and is e with one more name. e may be nil.
func (e *leftOutError) and(name string) *leftOutError {
	if e == nil {
		const shown = 100 // characters: a server may send names of any length
		cut, _ := cutUnits(name, shown)
		return &leftOutError{name: strings.Clone(cut)}
	}
	return &leftOutError{e.name, e.more + 1}
}

func (e *leftOutError) Error() string {
	s := fmt.Sprintf("smb: the server lists an invalid name: %q", e.name)
	if e.more > 0 {
		s += fmt.Sprintf(" and %d more", e.more)
	}
	return s
}
func (e *leftOutError) Unwrap() error { return ErrName }

func utf16Units(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

// shareName checks the name of a share and removes a server in front of it.
func shareName(name string) (string, error) {
	rest := name
	if strings.HasPrefix(rest, `\\`) || strings.HasPrefix(rest, `//`) {
		_, after, ok := strings.Cut(strings.ReplaceAll(rest[2:], "/", `\`), `\`)
		if !ok {
			return "", ErrName
		}
		rest = after
	}
	rest = strings.TrimRight(rest, `\/`)
	if rest == "" || !utf8.ValidString(rest) || utf16Units(rest) > 80 || strings.ContainsFunc(rest, func(r rune) bool {
		return r < ' ' || strings.ContainsRune(`\/:*?"<>|[]+;,=`, r)
	}) {
		return "", ErrName
	}
	return rest, nil
}

// sameName reports whether two remote names are equal for a server: without regard to case.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }

// split divides a remote name into its directory and its last component.
func split(remote string) (dir, base string) {
	if i := strings.LastIndexByte(remote, '\\'); i >= 0 {
		return remote[:i], remote[i+1:]
	}
	return "", remote
}

// baseName is the last component of a name in any form that remoteName accepts, and "." for the root.
func baseName(name string) string {
	if plainName(name) {
		return name
	}
	base := path.Base(path.Clean("/" + strings.ReplaceAll(name, `\`, "/")))
	if base == "/" {
		return "."
	}
	return base
}

// join joins a directory and a name.
func join(dir, base string) string {
	if dir == "" {
		return base
	}
	if base == "" {
		return dir
	}
	return dir + `\` + base
}
