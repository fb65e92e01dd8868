package proto

// LockFlags of one range (2.2.26.1).
type LockFlags uint32

// Lock flags (2.2.26.1). LockFailImmediately goes with the first two.
const (
	LockShared          LockFlags = 0x01
	LockExclusive       LockFlags = 0x02
	LockUnlock          LockFlags = 0x04
	LockFailImmediately LockFlags = 0x10
)

// LockElement is one range to lock or unlock (2.2.26.1).
type LockElement struct {
	Offset, Length uint64 // bytes
	Flags          LockFlags
}

// LockRequest locks or unlocks ranges of a file (2.2.26). The reply has no data.
type LockRequest struct {
	// Sequence is the lock sequence number and index, 0 below 2.1.
	Sequence uint32
	FileID   FileID
	// Locks has at least one element, all of them locks or all unlocks.
	Locks []LockElement
}

// Size is the number of bytes Append adds.
func (r *LockRequest) Size() int { return 24 + 24*len(r.Locks) }

// Append appends the request's body behind its header.
func (r *LockRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 48)
	dst = le.AppendUint16(dst, uint16(len(r.Locks)))
	dst = le.AppendUint32(dst, r.Sequence)
	dst = r.FileID.append(dst)
	for _, l := range r.Locks {
		dst = le.AppendUint64(dst, l.Offset)
		dst = le.AppendUint64(dst, l.Length)
		dst = le.AppendUint32(dst, uint32(l.Flags))
		dst = le.AppendUint32(dst, 0)
	}
	return dst
}
