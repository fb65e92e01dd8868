package proto

// OPLOCK_BREAK has two forms, distinguished by their size: breaks of oplocks and breaks of leases.

const (
	oplockBreakSize = 24
	leaseBreakSize  = 44
	leaseAckSize    = 36
)

// Break is an OPLOCK_BREAK notification, which answers no request and has [UnsolicitedMessageID] (2.2.23).
type Break struct {
	// IsLease says which of the two groups of fields below is valid.
	IsLease bool

	FileID FileID      // of an oplock
	Oplock OplockLevel // the new level

	LeaseKey     [16]byte
	NewEpoch     uint16
	Flags        uint32 // LeaseBreakAckRequired
	CurrentState LeaseState
	NewState     LeaseState
}

// DecodeBreak reads an oplock break (2.2.23.1) or lease break (2.2.23.2) notification.
func DecodeBreak(msg []byte) (Break, error) {
	const name = "OPLOCK_BREAK notification"
	if len(msg) < HeaderSize+oplockBreakSize {
		return Break{}, malformed(name, reasonShort)
	}
	b := msg[HeaderSize:]
	switch le.Uint16(b) {
	case oplockBreakSize:
		return Break{Oplock: OplockLevel(b[2]), FileID: decodeFileID(b[8:])}, nil
	case leaseBreakSize:
		if len(b) < leaseBreakSize {
			return Break{}, malformed(name, reasonShort)
		}
		return Break{
			IsLease:      true,
			NewEpoch:     le.Uint16(b[2:]),
			Flags:        le.Uint32(b[4:]),
			LeaseKey:     [16]byte(b[8:24]),
			CurrentState: LeaseState(le.Uint32(b[24:])),
			NewState:     LeaseState(le.Uint32(b[28:])),
		}, nil
	}
	return Break{}, malformed(name, reasonSize)
}

// OplockAck acknowledges the break of an oplock (2.2.24.1).
type OplockAck struct {
	FileID FileID
	Oplock OplockLevel
}

// Size is the number of bytes Append adds.
func (r *OplockAck) Size() int { return oplockBreakSize }

// Append appends the request's body behind its header.
func (r *OplockAck) Append(dst []byte) []byte {
	dst = append(dst, oplockBreakSize, 0, uint8(r.Oplock), 0, 0, 0, 0, 0)
	return r.FileID.append(dst)
}

// LeaseAck acknowledges the break of a lease (2.2.24.2).
type LeaseAck struct {
	Key   [16]byte
	State LeaseState
}

// Size is the number of bytes Append adds.
func (r *LeaseAck) Size() int { return leaseAckSize }

// Append appends the request's body behind its header.
func (r *LeaseAck) Append(dst []byte) []byte {
	dst = append(dst, leaseAckSize, 0, 0, 0, 0, 0, 0, 0)
	dst = append(dst, r.Key[:]...)
	dst = le.AppendUint32(dst, uint32(r.State))
	return le.AppendUint64(dst, 0)
}
