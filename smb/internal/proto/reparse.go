package proto

// Reparse tags (MS-FSCC 2.1.2.1).
const (
	ReparseTagSymlink    uint32 = 0xa000000c
	ReparseTagMountPoint uint32 = 0xa0000003
	ReparseTagNFS        uint32 = 0x80000014
	ReparseTagLXSymlink  uint32 = 0xa000001d
	ReparseTagAFUnix     uint32 = 0x80000023
	ReparseTagDedup      uint32 = 0x80000013
	ReparseTagWOF        uint32 = 0x80000017
	ReparseTagHSM        uint32 = 0xc0000004
	ReparseTagHSM2       uint32 = 0x80000006
	ReparseTagSIS        uint32 = 0x80000007
	ReparseTagWIM        uint32 = 0x80000008
	ReparseTagDFS        uint32 = 0x8000000a
	ReparseTagDFSR       uint32 = 0x80000012
	ReparseTagSync       uint32 = 0x8000001e
	ReparseTagOneDrive   uint32 = 0x80000021
	ReparseTagCloud      uint32 = 0x9000001a // sixteen tags that differ in bits 12 to 15
)

// IsNameSurrogate reports whether the file or directory with the tag represents another one (MS-FSCC
// 2.1.2.1), whose data is read under its name.
func IsNameSurrogate(tag uint32) bool { return tag&0x20000000 != 0 }

// IsTransparent reports whether a file or directory with the tag behaves like one without: its data is stored
// differently, deduplicated, compressed or in a remote tier, and the server fetches it when it is read.
func IsTransparent(tag uint32) bool {
	switch tag {
	case ReparseTagDedup, ReparseTagWOF, ReparseTagHSM, ReparseTagHSM2, ReparseTagSIS, ReparseTagWIM,
		ReparseTagDFS, ReparseTagDFSR, ReparseTagSync, ReparseTagOneDrive:
		return true
	}
	return tag&^0xf000 == ReparseTagCloud
}

// SymlinkRelative says that a link's target is relative to its directory (MS-FSCC 2.1.2.4).
const SymlinkRelative uint32 = 1

// Reparse is the target of a symbolic link or mount point (MS-FSCC 2.1.2.4, 2.1.2.5).
type Reparse struct {
	Tag        uint32
	Flags      uint32 // SymlinkRelative, of a symbolic link
	Substitute []byte // UTF-16LE, aliases the message; what the server follows
	Print      []byte // UTF-16LE, aliases the message; what it shows
}

// DecodeReparse reads the output of FSCTL_GET_REPARSE_POINT. For tags other than those of symbolic links and
// mount points only the tag is set.
func DecodeReparse(b []byte) (Reparse, error) {
	const name = "reparse point"
	if len(b) < 8 {
		return Reparse{}, malformed(name, reasonShort)
	}
	r := Reparse{Tag: le.Uint32(b)}
	data, ok := slice(b, 8, uint32(le.Uint16(b[4:])))
	if !ok {
		return Reparse{}, malformed(name, reasonBounds)
	}
	switch r.Tag {
	case ReparseTagSymlink:
		if len(data) < 12 {
			return Reparse{}, malformed(name, reasonShort)
		}
		r.Flags = le.Uint32(data[8:])
		r.Substitute, r.Print, ok = reparseNames(data, data[12:])
	case ReparseTagMountPoint:
		if len(data) < 8 {
			return Reparse{}, malformed(name, reasonShort)
		}
		r.Substitute, r.Print, ok = reparseNames(data, data[8:])
	}
	if !ok {
		return Reparse{}, malformed(name, reasonBounds)
	}
	return r, nil
}

// reparseNames returns the two names in paths, by the four fields at the start of fields.
func reparseNames(fields, paths []byte) (substitute, print []byte, ok bool) {
	substitute, ok = slice(paths, uint32(le.Uint16(fields)), uint32(le.Uint16(fields[2:])))
	if !ok {
		return nil, nil, false
	}
	print, ok = slice(paths, uint32(le.Uint16(fields[4:])), uint32(le.Uint16(fields[6:])))
	return substitute, print, ok
}

// AppendSymlink appends the input of FSCTL_SET_REPARSE_POINT that makes a symbolic link (MS-FSCC 2.1.2.4).
// The target has backslashes; it is used for both names.
func AppendSymlink(dst []byte, target string, flags uint32) []byte {
	n := UTF16Len(target)
	dst = le.AppendUint32(dst, ReparseTagSymlink)
	dst = le.AppendUint16(dst, uint16(12+2*n))
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint16(dst, uint16(n))
	dst = le.AppendUint16(dst, uint16(n))
	dst = le.AppendUint16(dst, uint16(n))
	dst = le.AppendUint32(dst, flags)
	dst = AppendUTF16(dst, target)
	return AppendUTF16(dst, target)
}
