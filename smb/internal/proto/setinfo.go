package proto

// Structures of SET_INFO. Each Append function appends one to dst.

// RenameInfo moves a file to another name of its share (MS-FSCC 2.4.42.2); as ClassLink it adds the name
// (MS-FSCC 2.4.28.2).
type RenameInfo struct {
	Name string // relative to the share, with backslashes
	// Replace is whether an existing file of that name is replaced.
	Replace bool
	// POSIX is whether the file is open with the POSIX extensions: slashes are sent in place of backslashes.
	POSIX bool
}

// Size is the number of bytes Append and AppendEx add.
func (i *RenameInfo) Size() int { return max(20+UTF16Len(i.Name), 24) }

// Append appends the structure of ClassRename or ClassLink.
func (i *RenameInfo) Append(dst []byte) []byte {
	replace := uint64(0)
	if i.Replace {
		replace = 1
	}
	return i.append(le.AppendUint64(dst, replace))
}

// Flags of [RenameInfo.AppendEx] (MS-FSCC 2.4.43).
const (
	RenameReplace        uint32 = 0x01
	RenamePOSIXSemantics uint32 = 0x02
	RenameIgnoreReadOnly uint32 = 0x40
)

// AppendEx appends the structure of ClassRenameEx, whose flags take Replace's place.
func (i *RenameInfo) AppendEx(dst []byte, flags uint32) []byte {
	return i.append(le.AppendUint64(dst, uint64(flags)))
}

func (i *RenameInfo) append(dst []byte) []byte {
	dst = le.AppendUint64(dst, 0) // RootDirectory
	n := UTF16Len(i.Name)
	dst = le.AppendUint32(dst, uint32(n))
	if i.POSIX {
		dst = AppendUTF16(dst, posixPath(i.Name))
	} else {
		dst = AppendUTF16(dst, i.Name)
	}
	return appendZeros(dst, max(4-n, 0)) // the structure has at least 24 bytes
}

// AppendDelete appends the structure of ClassDisposition that deletes the file when it
// is closed (MS-FSCC 2.4.11).
func AppendDelete(dst []byte) []byte { return append(dst, 1) }

// AppendSize appends the structure of ClassEndOfFile (MS-FSCC 2.4.14) or
// ClassAllocation (MS-FSCC 2.4.4): a length in bytes.
func AppendSize(dst []byte, n uint64) []byte { return le.AppendUint64(dst, n) }
