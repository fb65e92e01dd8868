package smb2

import "strings"

// MapChars says how characters that Windows reserves are encoded in names.
type MapChars int

// Encodings of reserved characters.
const (
	MapCharsNone MapChars = 0 // no encoding
	MapCharsSFM  MapChars = 1 // as Services for Mac: mount.cifs's "mapposix"
	MapCharsSFU  MapChars = 2 // as Services for Unix: mount.cifs's "mapchars"
)

// sfm and sfu pair each reserved character with the code point that encodes it.
const (
	sfmReserved = "\"*:<>?|"
	sfmMapped   = "\uf020\uf021\uf022\uf023\uf024\uf025\uf027"
	sfmSpace    = '\uf028' // a space at the end of a component
	sfmPeriod   = '\uf029' // a period there
	sfuReserved = "*?:><|"
	sfuMapped   = "\uf02a\uf03f\uf03a\uf03e\uf03c\uf07c"
)

// outbound encodes a name for the server.
func (m MapChars) outbound(name string) string {
	if m == MapCharsNone {
		return name
	}
	parts := strings.Split(name, `\`)
	for i, part := range parts {
		if part != "" && part != "." && part != ".." {
			parts[i] = m.component(part)
		}
	}
	return strings.Join(parts, `\`)
}

func (m MapChars) component(part string) string {
	if m == MapCharsSFU {
		return swapRunes(part, sfuReserved, sfuMapped)
	}
	part = strings.Map(func(r rune) rune {
		if r >= 1 && r <= 0x1f {
			return r + 0xf000
		}
		return r
	}, swapRunes(part, sfmReserved, sfmMapped))
	switch last := len(part) - 1; part[last] {
	case ' ':
		return part[:last] + string(sfmSpace)
	case '.':
		return part[:last] + string(sfmPeriod)
	}
	return part
}

// inbound decodes a name from the server.
func (m MapChars) inbound(name string) string {
	switch m {
	case MapCharsSFU:
		return swapRunes(name, sfuMapped, sfuReserved)
	case MapCharsSFM:
		return strings.Map(func(r rune) rune {
			switch {
			case r >= 0xf001 && r <= 0xf01f:
				return r - 0xf000
			case r == sfmSpace:
				return ' '
			case r == sfmPeriod:
				return '.'
			}
			return r
		}, swapRunes(name, sfmMapped, sfmReserved))
	}
	return name
}

// swapRunes replaces each rune of s that is in from by the rune at the same index of to.
func swapRunes(s, from, to string) string {
	if !strings.ContainsAny(s, from) {
		return s
	}
	f, t := []rune(from), []rune(to)
	return strings.Map(func(r rune) rune {
		for i := range f {
			if f[i] == r {
				return t[i]
			}
		}
		return r
	}, s)
}
