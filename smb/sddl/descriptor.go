package sddl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

var (
	// ErrMalformed is matched when a binary security descriptor is malformed.
	ErrMalformed = errors.New("sddl: malformed security descriptor")
	// ErrSyntax is matched when text is not SDDL, or a value cannot be encoded.
	ErrSyntax = errors.New("sddl: syntax error")
)

// Descriptor is a security descriptor. The zero Descriptor specifies nothing.
type Descriptor struct {
	Owner, Group SID  // "": not specified
	DACL, SACL   *ACL // nil: not specified; an object without a DACL gives everyone full access
	// RMControl is the resource manager's byte, valid when Control has its flag; it exists in the binary form
	// only.
	RMControl byte
	Control   Control
}

// Control holds the flags of a descriptor (MS-DTYP 2.4.6) that do not follow from its other fields.
type Control uint16

// Flags of a Control.
const (
	OwnerDefaulted     Control = 0x0001
	GroupDefaulted     Control = 0x0002
	DACLDefaulted      Control = 0x0008
	SACLDefaulted      Control = 0x0020
	DACLAutoInheritReq Control = 0x0100
	SACLAutoInheritReq Control = 0x0200
	DACLAutoInherited  Control = 0x0400
	SACLAutoInherited  Control = 0x0800
	DACLProtected      Control = 0x1000
	SACLProtected      Control = 0x2000
	RMControlValid     Control = 0x4000

	daclPresent  Control = 0x0004
	saclPresent  Control = 0x0010
	selfRelative Control = 0x8000
	implied              = daclPresent | saclPresent | selfRelative
)

// ACL is an access control list (MS-DTYP 2.4.5). An empty one grants nothing.
type ACL struct{ Entries []ACE }

// AceType is the type of an entry (MS-DTYP 2.4.4.1).
type AceType uint8

// Types whose entries are a mask and a SID.
const (
	Allow AceType = 0
	Deny  AceType = 1
	Audit AceType = 2
	Alarm AceType = 3
	Label AceType = 17
)

// AceFlags say how an entry is inherited and what is audited (MS-DTYP 2.4.4.1).
type AceFlags uint8

// Flags of an entry.
const (
	ObjectInherit    AceFlags = 0x01
	ContainerInherit AceFlags = 0x02
	NoPropagate      AceFlags = 0x04
	InheritOnly      AceFlags = 0x08
	Inherited        AceFlags = 0x10
	AuditSuccess     AceFlags = 0x40
	AuditFailure     AceFlags = 0x80
)

// Mask is a set of rights (MS-DTYP 2.4.3).
type Mask uint32

// ACE is one entry of a list.
type ACE struct {
	Type  AceType
	Flags AceFlags
	Mask  Mask
	SID   SID
	// Raw is the encoded entry, with its header, when its type has another layout; Mask and SID are not set
	// then.
	Raw []byte
}

// simple reports whether entries of the type consist of a mask and a SID.
func (t AceType) simple() bool { return t <= Alarm || t == Label }

// Decode reads the self-relative form. The Descriptor does not alias b.
func Decode(b []byte) (*Descriptor, error) {
	if len(b) < 20 || b[0] != 1 {
		return nil, fmt.Errorf("%w: header", ErrMalformed)
	}
	le := binary.LittleEndian
	control := Control(le.Uint16(b[2:]))
	d := &Descriptor{Control: control &^ implied, RMControl: b[1]}
	var err error
	if d.Owner, err = sidAt(b, le.Uint32(b[4:])); err != nil {
		return nil, err
	}
	if d.Group, err = sidAt(b, le.Uint32(b[8:])); err != nil {
		return nil, err
	}
	if control&saclPresent != 0 {
		if d.SACL, err = aclAt(b, le.Uint32(b[12:])); err != nil {
			return nil, err
		}
	}
	if control&daclPresent != 0 {
		d.DACL, err = aclAt(b, le.Uint32(b[16:]))
	}
	return d, err
}

func sidAt(b []byte, off uint32) (SID, error) {
	if off == 0 {
		return "", nil
	}
	if uint64(off) > uint64(len(b)) {
		return "", fmt.Errorf("%w: security identifier", ErrMalformed)
	}
	return decodeSID(b[off:])
}

func aclAt(b []byte, off uint32) (*ACL, error) {
	if off == 0 {
		return nil, nil // present and null: everyone has full access
	}
	le := binary.LittleEndian
	if uint64(off)+8 > uint64(len(b)) {
		return nil, fmt.Errorf("%w: access control list", ErrMalformed)
	}
	b = b[off:]
	size, count := int(le.Uint16(b[2:])), int(le.Uint16(b[4:]))
	if size < 8 || size > len(b) {
		return nil, fmt.Errorf("%w: access control list", ErrMalformed)
	}
	a := &ACL{}
	for b = b[8:size]; count > 0; count-- {
		if len(b) < 4 {
			return nil, fmt.Errorf("%w: access control entry", ErrMalformed)
		}
		n := int(le.Uint16(b[2:]))
		if n < 4 || n > len(b) {
			return nil, fmt.Errorf("%w: access control entry", ErrMalformed)
		}
		e := ACE{Type: AceType(b[0]), Flags: AceFlags(b[1])}
		if e.Type.simple() {
			if n < 8 {
				return nil, fmt.Errorf("%w: access control entry", ErrMalformed)
			}
			e.Mask = Mask(le.Uint32(b[4:]))
			var err error
			if e.SID, err = decodeSID(b[8:n]); err != nil {
				return nil, err
			}
		} else {
			e.Raw = slices.Clone(b[:n])
		}
		a.Entries = append(a.Entries, e)
		b = b[n:]
	}
	return a, nil
}

// Encode returns the self-relative form. It fails when a list has more than 64 KiB.
func (d *Descriptor) Encode() ([]byte, error) {
	le := binary.LittleEndian
	b := make([]byte, 20, 256)
	control := d.Control&^implied | selfRelative
	b[0] = 1
	if control&RMControlValid != 0 {
		b[1] = d.RMControl
	}
	part := func(field int, encode func([]byte) ([]byte, error)) (err error) {
		le.PutUint32(b[field:], uint32(len(b)))
		b, err = encode(b)
		return err
	}
	var errs [4]error
	if d.Owner != "" {
		errs[0] = part(4, d.Owner.append)
	}
	if d.Group != "" {
		errs[1] = part(8, d.Group.append)
	}
	if d.SACL != nil {
		control |= saclPresent
		errs[2] = part(12, d.SACL.append)
	}
	if d.DACL != nil {
		control |= daclPresent
		errs[3] = part(16, d.DACL.append)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	le.PutUint16(b[2:], uint16(control))
	return b, nil
}

func (s SID) append(dst []byte) ([]byte, error) {
	b, err := s.encode(nil)
	return append(dst, b...), err
}

func (a *ACL) append(dst []byte) ([]byte, error) {
	le := binary.LittleEndian
	base := len(dst)
	revision := byte(2)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	for i := range a.Entries {
		e := &a.Entries[i]
		if !e.Type.simple() {
			if len(e.Raw) < 4 || int(le.Uint16(e.Raw[2:])) != len(e.Raw) {
				return dst, fmt.Errorf("%w: entry %d has no raw form", ErrSyntax, i)
			}
			revision = 4 // the list may contain object entries
			dst = append(dst, e.Raw...)
			continue
		}
		sid, err := e.SID.encode(nil)
		if err != nil {
			return dst, err
		}
		dst = append(dst, byte(e.Type), byte(e.Flags))
		dst = le.AppendUint16(dst, uint16(8+len(sid)))
		dst = le.AppendUint32(dst, uint32(e.Mask))
		dst = append(dst, sid...)
	}
	size := len(dst) - base
	if size > 65535 || len(a.Entries) > 65535 {
		return dst, fmt.Errorf("%w: a list of %d bytes", ErrSyntax, size)
	}
	dst[base] = revision
	le.PutUint16(dst[base+2:], uint16(size))
	le.PutUint16(dst[base+4:], uint16(len(a.Entries)))
	return dst, nil
}
