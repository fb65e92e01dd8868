package proto

import (
	"fmt"
	"strings"
)

// The SMB3 POSIX extensions, of dialect 3.1.1: specified by the Samba project ("SMB3 POSIX Extensions"), not by Microsoft. A client asks for
// them in NEGOTIATE, and again in each CREATE for the file that it opens.

// contextPOSIX is the type of the negotiate context by which both sides have the extensions.
const contextPOSIX = 0x100

// posixTag is the content of that context, and the name of the create context.
const posixTag = "\x93\xad\x25\x50\x9c\xb4\x11\xe7\xb4\x23\x83\xde\x96\x8b\xcd\x7c"

// Bits of a POSIX mode: the permissions as in st_mode, and above them the type of the file, which some servers leave zero.
const (
	ModePermissions uint32 = 0o7777
	modeTypeShift          = 12
	modeTypeMask    uint32 = 0xf
)

// POSIXType is the type of a file.
type POSIXType uint8

// Types of files. Zero is not known, or a regular file.
const (
	POSIXRegular POSIXType = iota
	POSIXDirectory
	POSIXSymlink
	POSIXCharDevice
	POSIXBlockDevice
	POSIXFIFO
	POSIXSocket
)

// SID is a security identifier in its binary form (MS-DTYP 2.4.2.2).
type SID string

// String is the SID as text, "S-1-5-88-1-1000".
func (s SID) String() string {
	if len(s) < 8 {
		return ""
	}
	b := []byte(s)
	authority := uint64(b[2])<<40 | uint64(b[3])<<32 | uint64(b[4])<<24 | uint64(b[5])<<16 | uint64(b[6])<<8 | uint64(b[7])
	var text strings.Builder
	fmt.Fprintf(&text, "S-%d-%d", b[0], authority)
	for b = b[8:]; len(b) >= 4; b = b[4:] {
		fmt.Fprintf(&text, "-%d", le.Uint32(b))
	}
	return text.String()
}

// modeSID is the SID by which the entry of an ACL states a mode: S-1-5-88-3-mode.
func modeSID(mode uint32) []byte {
	b := []byte{1, 3, 0, 0, 0, 0, 0, 5}
	b = le.AppendUint32(b, 88)
	b = le.AppendUint32(b, 3)
	return le.AppendUint32(b, mode)
}

// UnixUserSID is the SID of the user with an id on the server, S-1-22-1-id.
func UnixUserSID(id uint32) SID { return unixSID(1, id) }

// UnixGroupSID is UnixUserSID for a group, S-1-22-2-id.
func UnixGroupSID(id uint32) SID { return unixSID(2, id) }

func unixSID(kind, id uint32) SID {
	b := []byte{1, 2, 0, 0, 0, 0, 0, 22}
	b = le.AppendUint32(b, kind)
	return SID(le.AppendUint32(b, id))
}

// Parts of a security descriptor (MS-DTYP 2.4.6).
const (
	selfRelative     = 0x8000 // control flag
	daclPresent      = 0x0004 // control flag
	descriptorLength = 20     // of the fixed part
)

// AppendOwnerDescriptor appends the security descriptor that states an owner and a group; "" states none.
func AppendOwnerDescriptor(dst []byte, owner, group SID) []byte {
	at := [2]uint32{} // offsets of both
	end := uint32(descriptorLength)
	for i, sid := range [2]SID{owner, group} {
		if sid != "" {
			at[i] = end
			end += uint32(len(sid))
		}
	}
	dst = append(dst, 1, 0)
	dst = le.AppendUint16(dst, selfRelative)
	dst = le.AppendUint32(dst, at[0])
	dst = le.AppendUint32(dst, at[1])
	dst = appendZeros(dst, 8) // neither SACL nor DACL
	dst = append(dst, owner...)
	return append(dst, group...)
}

// AppendModeDescriptor appends the security descriptor that sets the permissions of a POSIX mode: its DACL has one entry, for modeSID.
func AppendModeDescriptor(dst []byte, mode uint32) []byte {
	const acl, ace = 8, 8 // lengths of the fixed parts
	sid := modeSID(mode & ModePermissions)
	dst = append(dst, 1, 0)
	dst = le.AppendUint16(dst, selfRelative|daclPresent)
	dst = appendZeros(dst, 12) // neither owner, group nor SACL
	dst = le.AppendUint32(dst, descriptorLength)
	dst = append(dst, 2, 0) // MS-DTYP 2.4.5
	dst = le.AppendUint16(dst, uint16(acl+ace+len(sid)))
	dst = le.AppendUint16(dst, 1)
	dst = le.AppendUint16(dst, 0)
	dst = append(dst, 0, 0) // ACCESS_ALLOWED_ACE (MS-DTYP 2.4.4.2), which allows nothing
	dst = le.AppendUint16(dst, uint16(ace+len(sid)))
	dst = le.AppendUint32(dst, 0)
	return append(dst, sid...)
}

// posixPath is a name with backslashes as it is sent with the extensions: with slashes, since a backslash is a part of a name there.
func posixPath(name string) string { return strings.ReplaceAll(name, `\`, "/") }

// POSIXAttributes are what the extensions add to the description of a file.
type POSIXAttributes struct {
	Links        uint32 // hard links
	ReparseTag   uint32 // zero: the file is no reparse point
	Mode         uint32
	Device       uint32 // zero in a create context
	Owner, Group SID
}

// Type is the type of the file in its mode.
func (a *POSIXAttributes) Type() POSIXType { return POSIXType(a.Mode >> modeTypeShift & modeTypeMask) }

// decodePOSIX reads the part that all structures of the extensions have in common, and returns what is behind it. SIDs that are equal to
// those of like share their memory; it may be nil.
func decodePOSIX(b []byte, like *POSIXAttributes) (*POSIXAttributes, []byte, bool) {
	if len(b) < 12 {
		return nil, nil, false
	}
	owner, rest, ok := cutSID(b[12:])
	if !ok {
		return nil, nil, false
	}
	group, rest, ok := cutSID(rest)
	if !ok {
		return nil, nil, false
	}
	a := &POSIXAttributes{Links: le.Uint32(b), ReparseTag: le.Uint32(b[4:]), Mode: le.Uint32(b[8:])}
	if like != nil && string(owner) == string(like.Owner) && string(group) == string(like.Group) {
		a.Owner, a.Group = like.Owner, like.Group
	} else {
		a.Owner, a.Group = SID(owner), SID(group)
	}
	return a, rest, true
}

// cutSID cuts the SID at the start of b.
func cutSID(b []byte) (sid, rest []byte, ok bool) {
	const most = 15 // sub-authorities
	if len(b) < 8 || b[0] != 1 || b[1] > most || len(b) < 8+4*int(b[1]) {
		return nil, nil, false
	}
	n := 8 + 4*int(b[1])
	return b[:n], b[n:], true
}

// posixFixed is the length of the part of FilePOSIXInformation before the SIDs.
const posixFixed = 80

// POSIXInfo describes a file.
type POSIXInfo struct {
	Times      FileTimes
	EndOfFile  uint64 // bytes
	Allocation uint64 // bytes
	Attributes Attributes
	FileID     uint64 // zero: none
	POSIX      *POSIXAttributes
}

// DecodePOSIXInfo reads a structure of ClassPOSIX.
func DecodePOSIXInfo(b []byte) (POSIXInfo, error) {
	i, _, err := decodePOSIXInfo(b, nil)
	return i, err
}

// decodePOSIXInfo is DecodePOSIXInfo, and returns what is behind the structure. like is as in decodePOSIX.
func decodePOSIXInfo(b []byte, like *POSIXAttributes) (POSIXInfo, []byte, error) {
	const name = "FilePosixInformation"
	if len(b) < posixFixed {
		return POSIXInfo{}, nil, malformed(name, reasonShort)
	}
	if !isSize(le.Uint64(b[32:])) {
		return POSIXInfo{}, nil, malformed(name, reasonLength)
	}
	a, rest, ok := decodePOSIX(b[posixFixed-12:], like)
	if !ok {
		return POSIXInfo{}, nil, malformed(name, reasonBounds)
	}
	a.Device = le.Uint32(b[60:])
	return POSIXInfo{
		Times:      decodeFileTimes(b),
		EndOfFile:  le.Uint64(b[32:]),
		Allocation: le.Uint64(b[40:]),
		Attributes: Attributes(le.Uint32(b[48:])),
		FileID:     fileID(le.Uint64(b[52:])),
		POSIX:      a,
	}, rest, nil
}

// decodePOSIXEntry reads an entry of a directory, of FilePOSIXInformation, behind its first eight bytes.
func decodePOSIXEntry(b []byte, like *POSIXAttributes) (DirEntry, error) {
	i, rest, err := decodePOSIXInfo(b, like)
	if err != nil {
		return DirEntry{}, err
	}
	var name []byte
	ok := len(rest) >= 4
	if ok {
		name, ok = slice(rest, 4, le.Uint32(rest))
	}
	if !ok {
		return DirEntry{}, malformed("directory entry", reasonBounds)
	}
	return DirEntry{
		Times: i.Times, EndOfFile: i.EndOfFile, Allocation: i.Allocation, Attributes: i.Attributes,
		ReparseTag: i.POSIX.ReparseTag, FileID: i.FileID, POSIX: i.POSIX, Name: name,
	}, nil
}
