package proto

import "strconv"

// SecurityDescriptor is owner, group and access lists of a file, as a view of its
// self-relative form (MS-DTYP 2.4.6). A part that is absent is empty.
type SecurityDescriptor struct {
	Control uint16
	Owner   SID
	Group   SID
	DACL    ACL
	SACL    ACL
}

// Control flags that a reader needs (MS-DTYP 2.4.6).
const (
	ControlDACLPresent   uint16 = 0x0004
	ControlSACLPresent   uint16 = 0x0010
	ControlDACLProtected uint16 = 0x1000
	ControlSelfRelative  uint16 = 0x8000
)

// DecodeSecurityDescriptor reads a self-relative security descriptor, the structure of a
// QUERY_INFO of InfoSecurity.
func DecodeSecurityDescriptor(b []byte) (SecurityDescriptor, error) {
	const name = "security descriptor"
	if len(b) < 20 {
		return SecurityDescriptor{}, malformed(name, reasonShort)
	}
	if b[0] != 1 {
		return SecurityDescriptor{}, malformed(name, "unknown revision")
	}
	d := SecurityDescriptor{Control: le.Uint16(b[2:])}
	var err error
	if d.Owner, err = sidAt(b, le.Uint32(b[4:])); err != nil {
		return SecurityDescriptor{}, err
	}
	if d.Group, err = sidAt(b, le.Uint32(b[8:])); err != nil {
		return SecurityDescriptor{}, err
	}
	if d.SACL, err = aclAt(b, le.Uint32(b[12:])); err != nil {
		return SecurityDescriptor{}, err
	}
	d.DACL, err = aclAt(b, le.Uint32(b[16:]))
	return d, err
}

// SID is a security identifier in its binary form, a view (MS-DTYP 2.4.2.2). The zero SID is none.
type SID struct{ b []byte }

func sidAt(b []byte, off uint32) (SID, error) {
	if off == 0 {
		return SID{}, nil
	}
	if uint64(off) > uint64(len(b)) {
		return SID{}, malformed("security identifier", reasonBounds)
	}
	return decodeSID(b[off:])
}

func decodeSID(b []byte) (SID, error) {
	const name = "security identifier"
	if len(b) < 8 {
		return SID{}, malformed(name, reasonShort)
	}
	n := 8 + 4*int(b[1])
	if b[0] != 1 || b[1] > 15 || n > len(b) {
		return SID{}, malformed(name, reasonBounds)
	}
	return SID{b[:n:n]}, nil
}

// IsZero reports whether there is none.
func (s SID) IsZero() bool { return len(s.b) == 0 }

// Bytes is the binary form, valid for as long as the message's buffer is (rule 3).
func (s SID) Bytes() []byte { return s.b }

// String is the usual form, "S-1-5-32-544" (MS-DTYP 2.4.2.1); "" for none.
func (s SID) String() string {
	if s.IsZero() {
		return ""
	}
	authority := uint64(0)
	for _, c := range s.b[2:8] {
		authority = authority<<8 | uint64(c)
	}
	out := append([]byte(nil), "S-1-"...)
	if authority >= 1<<32 {
		out = strconv.AppendUint(append(out, "0x"...), authority, 16)
	} else {
		out = strconv.AppendUint(out, authority, 10)
	}
	for b := s.b[8:]; len(b) > 0; b = b[4:] {
		out = strconv.AppendUint(append(out, '-'), uint64(le.Uint32(b)), 10)
	}
	return string(out)
}

// ACL is an access control list (MS-DTYP 2.4.5): it walks its entries. It is a value:
// copying it copies the position.
type ACL struct {
	// Present tells an empty list, which allows nothing, from none, which allows all.
	Present bool

	count int
	rest  []byte
	cur   ACE
	err   error
}

// ACE is one entry of a list (MS-DTYP 2.4.4).
type ACE struct {
	Type  uint8 // 0 allows, 1 denies, 2 audits
	Flags uint8
	// Mask and SID are set for the basic types, 0 to 3, and for the callback ones of
	// the same layout, 9, 10 and 13.
	Mask Access
	SID  SID
	Raw  []byte // the whole entry, aliases the message
}

func aclAt(b []byte, off uint32) (ACL, error) {
	const name = "access control list"
	if off == 0 {
		return ACL{}, nil
	}
	if uint64(off)+8 > uint64(len(b)) {
		return ACL{}, malformed(name, reasonBounds)
	}
	b = b[off:]
	size := int(le.Uint16(b[2:]))
	if size < 8 || size > len(b) {
		return ACL{}, malformed(name, reasonBounds)
	}
	return ACL{Present: true, count: int(le.Uint16(b[4:])), rest: b[8:size]}, nil
}

// Next moves to the next entry and reports whether there is one; Err says afterwards
// whether the walk ended well.
func (a *ACL) Next() bool {
	if a.err != nil || a.count == 0 {
		return false
	}
	const name = "access control entry"
	a.count--
	if len(a.rest) < 4 {
		a.err = malformed(name, reasonShort)
		return false
	}
	size := int(le.Uint16(a.rest[2:]))
	if size < 4 || size > len(a.rest) {
		a.err = malformed(name, reasonBounds)
		return false
	}
	raw := a.rest[:size:size]
	a.rest = a.rest[size:]
	a.cur = ACE{Type: raw[0], Flags: raw[1], Raw: raw}
	switch raw[0] {
	case 0, 1, 2, 3, 9, 10, 13:
		if size < 16 {
			a.err = malformed(name, reasonShort)
			return false
		}
		a.cur.Mask = Access(le.Uint32(raw[4:]))
		a.cur.SID, a.err = decodeSID(raw[8:])
	}
	return a.err == nil
}

// ACE is the entry Next moved to, valid for as long as the message's buffer is (rule 3).
func (a *ACL) ACE() ACE { return a.cur }

// Err is the error that ended the walk, nil after a whole one.
func (a *ACL) Err() error { return a.err }
