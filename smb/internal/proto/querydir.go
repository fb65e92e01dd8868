package proto

// DirClass is the information class of directory entries (MS-FSCC 2.4).
type DirClass uint8

// Classes of directory entries.
const (
	// FileDirectoryInformation has names, times, lengths and attributes (MS-FSCC 2.4.10).
	FileDirectoryInformation DirClass = 0x01
	// FileIDBothDirectoryInformation has the file id and the reparse tag as well (MS-FSCC 2.4.17).
	FileIDBothDirectoryInformation DirClass = 0x25
	// FilePOSIXInformation is of the POSIX extensions: it has what FileIDBothDirectoryInformation has, besides short names, and POSIXAttributes.
	FilePOSIXInformation DirClass = 0x64
)

// fixed is how many bytes an entry has before its name, at least.
func (c DirClass) fixed() int {
	switch c {
	case FileDirectoryInformation:
		return 64
	case FilePOSIXInformation:
		return 8 + posixFixed + 2*8 + 4 // with SIDs of eight bytes
	}
	return 104
}

// QueryDirectoryFlags (2.2.33).
type QueryDirectoryFlags uint8

// Query directory flags (2.2.33).
const (
	QueryRestart     QueryDirectoryFlags = 0x01 // from the first entry again
	QuerySingleEntry QueryDirectoryFlags = 0x02
	QueryReopen      QueryDirectoryFlags = 0x10 // restart with another pattern
)

// QueryDirectoryRequest requests the next entries of a directory (2.2.33).
type QueryDirectoryRequest struct {
	Class   DirClass
	Flags   QueryDirectoryFlags
	FileID  FileID
	Pattern string // "*" for all
	Output  uint32 // bytes the answer may have
}

// Size is the number of bytes Append adds.
func (r *QueryDirectoryRequest) Size() int { return 32 + UTF16Len(r.Pattern) }

// Append appends the request's body behind its header.
func (r *QueryDirectoryRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 33)
	dst = append(dst, uint8(r.Class), uint8(r.Flags))
	dst = le.AppendUint32(dst, 0)
	dst = r.FileID.append(dst)
	dst = le.AppendUint16(dst, HeaderSize+32)
	dst = le.AppendUint16(dst, uint16(UTF16Len(r.Pattern)))
	dst = le.AppendUint32(dst, r.Output)
	return AppendUTF16(dst, r.Pattern)
}

// DecodeQueryDirectoryResponse reads the response to a QUERY_DIRECTORY of that class (2.2.34). The iterator
// aliases msg.
func DecodeQueryDirectoryResponse(msg []byte, class DirClass) (DirEntries, error) {
	b, err := decodeOutput(msg, "QUERY_DIRECTORY response")
	return DirEntries{rest: b, class: class}, err
}

// DirEntry is one entry of a directory. FileDirectoryInformation leaves ReparseTag and FileID zero.
type DirEntry struct {
	Times      FileTimes
	EndOfFile  uint64 // bytes
	Allocation uint64 // bytes
	Attributes Attributes
	// ReparseTag is the tag of the reparse point when Attributes has AttrReparsePoint; otherwise the field
	// holds the size of the extended attributes.
	ReparseTag uint32
	FileID     uint64           // zero: none
	POSIX      *POSIXAttributes // of FilePOSIXInformation
	Name       []byte           // UTF-16LE, aliases the message
}

// DirEntries iterates over the entries of one response. It is a value: copying it copies the position.
type DirEntries struct {
	class DirClass
	rest  []byte
	cur   DirEntry
	err   error
}

// Next moves to the next entry and reports whether there is one; when it returns false, Err says whether an
// error ended the iteration.
func (e *DirEntries) Next() bool {
	if e.err != nil || len(e.rest) == 0 {
		return false
	}
	const name = "directory entry"
	fixed := e.class.fixed()
	var b []byte
	if b, e.rest, e.err = chained(e.rest, name, fixed); e.err != nil {
		return false
	}
	if e.class == FilePOSIXInformation {
		e.cur, e.err = decodePOSIXEntry(b[8:], e.cur.POSIX)
		return e.err == nil
	}
	n, ok := slice(b, uint32(fixed), le.Uint32(b[60:]))
	if !ok {
		e.err = malformed(name, reasonBounds)
		return false
	}
	if !isSize(le.Uint64(b[40:])) {
		e.err = malformed(name, reasonLength)
		return false
	}
	e.cur = DirEntry{
		Times:      decodeFileTimes(b[8:]),
		EndOfFile:  le.Uint64(b[40:]),
		Allocation: le.Uint64(b[48:]),
		Attributes: Attributes(le.Uint32(b[56:])),
		Name:       n,
	}
	if e.class == FileIDBothDirectoryInformation {
		e.cur.ReparseTag, e.cur.FileID = le.Uint32(b[64:]), fileID(le.Uint64(b[96:]))
	}
	return true
}

// Entry is the entry that Next moved to. Its name is valid until the message's buffer is freed (rule 3).
func (e *DirEntries) Entry() DirEntry { return e.cur }

// Err is the error that ended the iteration, nil after a complete one.
func (e *DirEntries) Err() error { return e.err }
