package proto

// SimpleSize is the length of the body of messages without content.
const SimpleSize = 4

// AppendSimple appends the body of a LOGOFF (2.2.7), TREE_DISCONNECT (2.2.11), ECHO (2.2.28) or CANCEL
// (2.2.30) request: the same four bytes.
func AppendSimple(dst []byte) []byte { return append(dst, SimpleSize, 0, 0, 0) }

// FileID identifies an open file on a connection (2.2.14.1).
type FileID struct{ Persistent, Volatile uint64 }

// RelatedFileID is the id that, in a related request of a compound, means the file that an earlier request of
// the same compound opened (3.2.4.1.4).
func RelatedFileID() FileID { return FileID{^uint64(0), ^uint64(0)} }

func (id FileID) append(dst []byte) []byte {
	return le.AppendUint64(le.AppendUint64(dst, id.Persistent), id.Volatile)
}

func decodeFileID(b []byte) FileID {
	return FileID{le.Uint64(b), le.Uint64(b[8:])}
}

// FlushRequest asks the server to write a file's data to stable storage (2.2.17).
type FlushRequest struct{ FileID FileID }

// Size is the number of bytes Append adds.
func (r *FlushRequest) Size() int { return 24 }

// Append appends the request's body behind its header.
func (r *FlushRequest) Append(dst []byte) []byte {
	dst = append(dst, 24, 0, 0, 0, 0, 0, 0, 0)
	return r.FileID.append(dst)
}
