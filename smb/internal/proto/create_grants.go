package proto

// CreateGrants are the [CreateContexts] that a server granted (2.2.14.2). Contexts of other names are
// ignored.
type CreateGrants struct {
	Lease Lease
	// Durable is DurableRequestV1 or DurableRequestV2 when the handle is durable.
	Durable DurableKind
	// DurableTimeout is how long the server keeps the handle, in milliseconds; of V2.
	DurableTimeout uint32
	DurableFlags   uint32 // of V2: DurablePersistent
	// MaximalAccess is valid when HasMaximalAccess is set, which is false when the server refused it.
	MaximalAccess    Access
	HasMaximalAccess bool
	// DiskFileID and VolumeID are valid when HasDiskID.
	DiskFileID, VolumeID uint64
	HasDiskID            bool
	// POSIX is not nil when the file is open with the POSIX extensions.
	POSIX *POSIXAttributes
}

// decodeCreateGrants iterates over the list of contexts. Each step moves on by at least the header of a
// context, so a list cannot loop.
func decodeCreateGrants(list []byte) (CreateGrants, error) {
	const what = "create context"
	var g CreateGrants
	for len(list) > 0 {
		if len(list) < 16 {
			return g, malformed(what, reasonShort)
		}
		next := le.Uint32(list)
		cur := list
		if next == 0 {
			list = nil
		} else {
			if next < 16 || next&7 != 0 || uint64(next) > uint64(len(list)) {
				return g, malformed(what, "bad Next")
			}
			cur, list = list[:next], list[next:]
		}
		name, ok := variable(cur, uint32(le.Uint16(cur[4:])), uint32(le.Uint16(cur[6:])), 16)
		if !ok {
			return g, malformed(what, reasonBounds)
		}
		data, ok := variable(cur, uint32(le.Uint16(cur[10:])), le.Uint32(cur[12:]), 16)
		if !ok {
			return g, malformed(what, reasonBounds)
		}
		if !g.decode(name, data) {
			return g, malformed(what, reasonShort)
		}
	}
	return g, nil
}

func (g *CreateGrants) decode(name, data []byte) bool {
	switch string(name) {
	case "RqLs":
		return g.decodeLease(data)
	case "DHnQ":
		g.Durable = DurableRequestV1
	case "DH2Q":
		if len(data) < 8 {
			return false
		}
		g.Durable = DurableRequestV2
		g.DurableTimeout, g.DurableFlags = le.Uint32(data), le.Uint32(data[4:])
	case "MxAc":
		if len(data) < 8 {
			return false
		}
		if Status(le.Uint32(data)) == StatusSuccess {
			g.HasMaximalAccess, g.MaximalAccess = true, Access(le.Uint32(data[4:]))
		}
	case "QFid":
		if len(data) < 16 {
			return false
		}
		g.DiskFileID, g.VolumeID = fileID(le.Uint64(data)), le.Uint64(data[8:])
		g.HasDiskID = g.DiskFileID != 0
	case posixTag:
		var ok bool
		if g.POSIX, _, ok = decodePOSIX(data, nil); !ok {
			return false
		}
	}
	return true
}

func (g *CreateGrants) decodeLease(data []byte) bool {
	if len(data) < 32 {
		return false
	}
	g.Lease = Lease{
		Version: LeaseV1,
		Key:     [16]byte(data[:16]),
		State:   LeaseState(le.Uint32(data[16:])),
		Flags:   le.Uint32(data[20:]),
	}
	if len(data) >= 50 {
		g.Lease.Version = LeaseV2
		g.Lease.ParentKey = [16]byte(data[32:48])
		g.Lease.Epoch = le.Uint16(data[48:])
	}
	return true
}
