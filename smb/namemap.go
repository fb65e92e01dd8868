package smb

import (
	"strings"
	"unicode/utf8"
)

// NameMapping says how characters that Windows refuses in names are written.
type NameMapping uint8

const (
	// NamesAsTheyAre writes names as they are, and refuses those with such characters.
	NamesAsTheyAre NameMapping = iota
	// NamesSFM maps them to the private characters of Services for Macintosh, as macOS and
	// mount.cifs's "mapposix" do: control characters, `"*:<>?|`, and spaces and periods at the
	// end of a part of the path. "/" and "\" separate parts and are not mapped.
	NamesSFM
)

// Characters of Services for Macintosh: those below 0x20 lie at 0xf000.
const (
	sfmReserved = `"*:<>?|`
	sfmSpace    = '\uf028' // at the end
	sfmPeriod   = '\uf029' // at the end
)

// sfmMapped are what stands for the characters of sfmReserved, in their order.
func sfmMapped() []rune {
	return []rune{'\uf020', '\uf021', '\uf022', '\uf023', '\uf024', '\uf025', '\uf027'}
}

// remote is remoteName with the characters mapped that the Dialer says.
func (s *Share) remote(name string) (string, error) {
	return remoteName(s.m.s.cfg.Names.wire(name))
}

// wire is name as it travels.
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
	start := 0 // of the part
	for i, r := range runes {
		if isSeparator(r) {
			start = i + 1
		}
		last := i+1 == len(runes) || isSeparator(runes[i+1])
		part := string(runes[start : i+1])
		switch {
		case last && r == ' ':
			r = sfmSpace
		case last && r == '.' && part != "." && part != "..":
			r = sfmPeriod
		}
		out = append(out, r)
	}
	return string(out)
}

// local is the name of a directory entry as the user knows it. One that would lead
// elsewhere then stays as it is.
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
	if local == "." || local == ".." {
		return name
	}
	return local
}
