package sddl

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SID is a security identifier in text, "S-1-5-32-544"; "" is none. SIDs compare with ==.
type SID string

// aliases pairs SDDL's two-letter names with their well-known SIDs (MS-DTYP 2.5.1.1). Those relative to a
// domain are left out: the text does not contain the domain.
func aliases() [][2]string {
	return [][2]string{
		{"AN", "S-1-5-7"}, {"AO", "S-1-5-32-548"}, {"AU", "S-1-5-11"}, {"BA", "S-1-5-32-544"},
		{"BG", "S-1-5-32-546"}, {"BO", "S-1-5-32-551"}, {"BU", "S-1-5-32-545"}, {"CG", "S-1-3-1"},
		{"CO", "S-1-3-0"}, {"ED", "S-1-5-9"}, {"IU", "S-1-5-4"}, {"LS", "S-1-5-19"},
		{"NS", "S-1-5-20"}, {"NU", "S-1-5-2"}, {"OW", "S-1-3-4"}, {"PO", "S-1-5-32-550"},
		{"PS", "S-1-5-10"}, {"PU", "S-1-5-32-547"}, {"RC", "S-1-5-12"}, {"RD", "S-1-5-32-555"},
		{"RE", "S-1-5-32-552"}, {"RU", "S-1-5-32-554"}, {"SO", "S-1-5-32-549"}, {"SU", "S-1-5-6"},
		{"SY", "S-1-5-18"}, {"WD", "S-1-1-0"}, {"WR", "S-1-5-33"},
	}
}

// ParseSID parses "S-1-5-32-544", or one of SDDL's two-letter names.
func ParseSID(text string) (SID, error) {
	for _, a := range aliases() {
		if a[0] == text {
			return SID(a[1]), nil
		}
	}
	b, err := SID(text).encode(nil)
	if err != nil {
		return "", err
	}
	return decodeSID(b) // in canonical form
}

// alias is SDDL's text for s.
func (s SID) alias() string {
	for _, a := range aliases() {
		if a[1] == string(s) {
			return a[0]
		}
	}
	return string(s)
}

const maxSubauthorities = 15

// decodeSID reads the binary form (MS-DTYP 2.4.2.2), which may have bytes behind it.
func decodeSID(b []byte) (SID, error) {
	if len(b) < 8 || b[0] != 1 || b[1] > maxSubauthorities || len(b) < 8+4*int(b[1]) {
		return "", fmt.Errorf("%w: security identifier", ErrMalformed)
	}
	authority := uint64(binary.BigEndian.Uint32(b[4:])) | uint64(binary.BigEndian.Uint16(b[2:]))<<32
	s := "S-1-"
	if authority < 1<<32 {
		s += strconv.FormatUint(authority, 10)
	} else {
		s += fmt.Sprintf("0x%x", authority)
	}
	for i := range int(b[1]) {
		s += "-" + strconv.FormatUint(uint64(binary.LittleEndian.Uint32(b[8+4*i:])), 10)
	}
	return SID(s), nil
}

// encode appends the binary form.
func (s SID) encode(dst []byte) ([]byte, error) {
	parts := strings.Split(string(s), "-")
	if len(parts) < 3 || len(parts) > 3+maxSubauthorities || !strings.EqualFold(parts[0], "S") || parts[1] != "1" {
		return nil, fmt.Errorf("%w: %q is no security identifier", ErrSyntax, string(s))
	}
	authority, err := strconv.ParseUint(parts[2], 0, 48)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrSyntax, string(s), err)
	}
	dst = append(dst, 1, byte(len(parts)-3))
	dst = binary.BigEndian.AppendUint16(dst, uint16(authority>>32))
	dst = binary.BigEndian.AppendUint32(dst, uint32(authority))
	for _, p := range parts[3:] {
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrSyntax, string(s), err)
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	}
	return slices.Clip(dst), nil
}
