package smb

import (
	"strings"
	"unicode/utf8"
)

// NameMapping says how characters that Windows forbids in names are encoded.
type NameMapping uint8

const (
	// NamesAsTheyAre encodes nothing, and refuses names with such characters.
	NamesAsTheyAre NameMapping = iota
	// NamesSFM maps them to the private characters of Services for Macintosh, as macOS and mount.cifs's
	// "mapposix" do: control characters, `"*:<>?|`, and spaces and periods at the end of a component. "/" and
	// "\" separate components and are not mapped.
	NamesSFM
)

// Private characters of Services for Macintosh: those below 0x20 are at 0xf000.
const (
	sfmReserved = `"*:<>?|`
	sfmSpace    = '\uf028' // at the end
	sfmPeriod   = '\uf029' // at the end
)

// sfmMapped are the private characters for those of sfmReserved, in the same order.
func sfmMapped() []rune {
	return []rune{'\uf020', '\uf021', '\uf022', '\uf023', '\uf024', '\uf025', '\uf027'}
}

// remote is remoteName with the Dialer's mapping of characters.
func (s *Share) remote(name string) (string, error) {
	check := checkComponent
	if s.m.posix.Load() {
		check = checkLength
	}
	return remoteNameOf(s.m.s.cfg.Names.wire(name), check)
}

// wire encodes name for the server.
func (m NameMapping) wire(name string) string {
	if m != NamesSFM || !utf8.ValidString(name) {
		return name
	}
	mapped := sfmMapped()
	name = strings.Map(func(r rune) rune {
		switch i := strings.IndexRune(sfmReserved, r); {
		case i >= 0:
			return mapped[i]
		case r > 0 && r < ' ':
			return 0xf000 + r
		}
		return r
	}, name)
	var out []rune
	runes := []rune(name)
	start := 0 // of the component
	for i, r := range runes {
		if isSeparator(r) {
			start = i + 1
		}
		if i+1 == len(runes) || isSeparator(runes[i+1]) {
			part := string(runes[start : i+1])
			switch {
			case r == ' ':
				r = sfmSpace
			case r == '.' && part != "." && part != "..":
				r = sfmPeriod
			}
		}
		out = append(out, r)
	}
	return string(out)
}

// local decodes the name of a directory entry. A name that would then contain a path, or be another one when it is encoded again, is
// returned as it is: the program opens or removes the entry by what local returns.
func (m NameMapping) local(name string) string {
	if m != NamesSFM {
		return name
	}
	mapped := sfmMapped()
	local := strings.Map(func(r rune) rune {
		switch {
		case r == sfmSpace:
			return ' '
		case r == sfmPeriod:
			return '.'
		case r > 0xf000 && r < 0xf020:
			return r - 0xf000
		}
		for i, x := range mapped {
			if r == x {
				return rune(sfmReserved[i])
			}
		}
		return r
	}, name)
	if local == "." || local == ".." || local != name && m.wire(local) != name {
		return name
	}
	return local
}

// localPath decodes a name that a server reports below a directory, with "/" in place of "\", and reports whether each of its parts is
// the name of an entry.
func (m NameMapping) localPath(sent string) (string, bool) {
	parts := strings.Split(sent, `\`)
	for i, part := range parts {
		if !isEntryName(part) {
			return "", false
		}
		parts[i] = m.local(part)
	}
	return strings.Join(parts, "/"), true
}
