package smb2

import (
	"errors"
	"os"
	"path"
	"strings"
)

// PathSeparator separates the components of a name.
const PathSeparator = '\\'

// NORMALIZE_PATH says whether "/" in a name is replaced by "\" and a leading ".\" removed. It must not be
// changed while sessions are in use. The name and the variable are go-smb2's.
var NORMALIZE_PATH = true

// IsPathSeparator reports whether c is a backslash.
func IsPathSeparator(c uint8) bool { return c == PathSeparator }

// ErrBadPattern is returned for a malformed pattern.
var ErrBadPattern = errors.New("syntax error in pattern")

// Match reports whether name matches pattern: the syntax is path.Match's with "\" between
// components, and without a way to escape a character. The only error is ErrBadPattern.
func Match(pattern, name string) (matched bool, err error) {
	matched, err = path.Match(slashed(normPattern(pattern)), slashed(name))
	if err != nil {
		return false, ErrBadPattern
	}
	return matched, nil
}

// slashed replaces "\" by "/" in a name or pattern.
func slashed(name string) string { return strings.ReplaceAll(name, `\`, "/") }

// normPath is a name as go-smb2 sends it.
func normPath(name string) string {
	if !NORMALIZE_PATH {
		return name
	}
	if name = normPattern(name); name == "." {
		return ""
	}
	return name
}

// normPattern is normPath for a pattern; "." is kept.
func normPattern(pattern string) string {
	if !NORMALIZE_PATH {
		return pattern
	}
	pattern = strings.ReplaceAll(pattern, "/", `\`)
	for strings.HasPrefix(pattern, `.\`) {
		pattern = pattern[2:]
	}
	return pattern
}

var (
	errSlash    = errors.New(`can't use '/' as a path separator; use '\' instead`)
	errAbsolute = errors.New(`leading '\' is not allowed in this operation`)
)

// checkPath refuses the names that go-smb2 refuses.
func checkPath(op, name string) error {
	switch {
	case !NORMALIZE_PATH && strings.Contains(name, "/"):
		return &os.PathError{Op: op, Path: name, Err: errSlash}
	case strings.HasPrefix(name, `\`):
		return &os.PathError{Op: op, Path: name, Err: errAbsolute}
	}
	return nil
}

// base is the last component of name, "" for the root.
func base(name string) string {
	name = strings.TrimRight(name, `\`)
	return name[strings.LastIndexByte(name, '\\')+1:]
}
