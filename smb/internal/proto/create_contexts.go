package proto

// LeaseState is a set of kinds of caching (2.2.13.2.8).
type LeaseState uint32

// Lease states (2.2.13.2.8).
const (
	LeaseRead   LeaseState = 1
	LeaseHandle LeaseState = 2
	LeaseWrite  LeaseState = 4
)

// Lease flags (2.2.13.2.10, 2.2.23.2).
const (
	LeaseFlagBreakInProgress uint32 = 2
	LeaseFlagParentKeySet    uint32 = 4
	LeaseBreakAckRequired    uint32 = 1 // in a lease break notification
)

// DurablePersistent asks for, or reports, a persistent handle (2.2.13.2.11).
const DurablePersistent uint32 = 2

// LeaseVersion is the version of the lease context.
type LeaseVersion uint8

// Lease versions (2.2.13.2.8 for 2.1, 2.2.13.2.10 for 3.x).
const (
	NoLease LeaseVersion = iota
	LeaseV1
	LeaseV2
)

// Lease is requested or granted (2.2.13.2.8, 2.2.13.2.10).
type Lease struct {
	Version   LeaseVersion // NoLease: none
	Key       [16]byte
	State     LeaseState
	Flags     uint32
	ParentKey [16]byte // of LeaseV2, valid with LeaseFlagParentKeySet
	Epoch     uint16   // of LeaseV2
}

// DurableKind is the kind of durable handle context.
type DurableKind uint8

// Kinds of durable handle contexts.
const (
	NoDurable          DurableKind = iota
	DurableRequestV1               // DHnQ (2.2.13.2.3)
	DurableReconnectV1             // DHnC (2.2.13.2.4)
	DurableRequestV2               // DH2Q (2.2.13.2.11)
	DurableReconnectV2             // DH2C (2.2.13.2.12)
)

// Durable requests a handle that survives its connection, or that handle again.
type Durable struct {
	Kind       DurableKind // NoDurable: none
	FileID     FileID      // of the reconnects; V1 uses its persistent part too
	CreateGUID [16]byte    // of V2
	Timeout    uint32      // of DurableRequestV2, milliseconds; 0 leaves it to the server
	Flags      uint32      // of V2: DurablePersistent
}

// CreateContexts are the create contexts of a request. The zero value has none.
type CreateContexts struct {
	Lease         Lease
	Durable       Durable
	MaximalAccess bool // MxAc (2.2.13.2.5)
	QueryOnDiskID bool // QFid (2.2.13.2.9)
	// Timewarp is the time of the snapshot to open (TWrp, 2.2.13.2.7); 0: the current version.
	Timewarp Filetime
	// POSIX asks for the POSIX extensions; a file that the request creates has the permissions of Mode.
	POSIX bool
	Mode  uint32
}

// contextData is where in a context with such a name its data begins.
func contextData(name string) int { return 16 + align8(len(name)) }

func (c *CreateContexts) size() int {
	n := 0
	add := func(data int) { n = align8(n) + contextData("QFid") + data } // most names have four bytes
	if size := c.Durable.dataSize(); size > 0 {
		add(size)
	}
	if size := c.Lease.dataSize(); size > 0 {
		add(size)
	}
	if c.MaximalAccess {
		add(0)
	}
	if c.QueryOnDiskID {
		add(0)
	}
	if c.Timewarp != 0 {
		add(8)
	}
	if c.POSIX {
		n = align8(n) + contextData(posixTag) + 4
	}
	return n
}

func (d *Durable) dataSize() int {
	switch d.Kind {
	case DurableRequestV1, DurableReconnectV1:
		return 16
	case DurableRequestV2:
		return 32
	case DurableReconnectV2:
		return 36
	}
	return 0
}

func (l *Lease) dataSize() int {
	switch l.Version {
	case LeaseV1:
		return 32
	case LeaseV2:
		return 52
	}
	return 0
}

// append appends the list at a multiple of 8 bytes from the header.
func (c *CreateContexts) append(dst []byte) []byte {
	base := len(dst)
	last := -1 // where the last context begins, to be linked to the next
	if c.Durable.dataSize() > 0 {
		dst = linkContext(dst, base, &last, c.Durable.name(), c.Durable.dataSize())
		dst = c.Durable.appendData(dst)
	}
	if c.Lease.dataSize() > 0 {
		dst = linkContext(dst, base, &last, "RqLs", c.Lease.dataSize())
		dst = c.Lease.appendData(dst)
	}
	if c.MaximalAccess {
		dst = linkContext(dst, base, &last, "MxAc", 0)
	}
	if c.QueryOnDiskID {
		dst = linkContext(dst, base, &last, "QFid", 0)
	}
	if c.Timewarp != 0 {
		dst = linkContext(dst, base, &last, "TWrp", 8)
		dst = le.AppendUint64(dst, uint64(c.Timewarp))
	}
	if c.POSIX {
		dst = linkContext(dst, base, &last, posixTag, 4)
		dst = le.AppendUint32(dst, c.Mode)
	}
	return dst
}

// linkContext appends the header of a context (2.2.13.2) and links the one before to it.
func linkContext(dst []byte, base int, last *int, name string, data int) []byte {
	dst = pad(dst, base)
	if *last >= 0 {
		le.PutUint32(dst[*last:], uint32(len(dst)-*last))
	}
	*last = len(dst)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint16(dst, 16)
	dst = le.AppendUint16(dst, uint16(len(name)))
	dst = le.AppendUint16(dst, 0)
	if data > 0 {
		dst = le.AppendUint16(dst, uint16(contextData(name)))
	} else {
		dst = le.AppendUint16(dst, 0)
	}
	dst = le.AppendUint32(dst, uint32(data))
	return pad(append(dst, name...), base)
}

func (d *Durable) name() string {
	return [...]string{"", "DHnQ", "DHnC", "DH2Q", "DH2C"}[d.Kind]
}

func (d *Durable) appendData(dst []byte) []byte {
	switch d.Kind {
	case DurableRequestV1:
		dst = appendZeros(dst, 16)
	case DurableReconnectV1:
		dst = d.FileID.append(dst)
	case DurableRequestV2:
		dst = le.AppendUint32(dst, d.Timeout)
		dst = le.AppendUint32(dst, d.Flags)
		dst = le.AppendUint64(dst, 0)
		dst = append(dst, d.CreateGUID[:]...)
	case DurableReconnectV2:
		dst = d.FileID.append(dst)
		dst = append(dst, d.CreateGUID[:]...)
		dst = le.AppendUint32(dst, d.Flags)
	}
	return dst
}

func (l *Lease) appendData(dst []byte) []byte {
	dst = append(dst, l.Key[:]...)
	dst = le.AppendUint32(dst, uint32(l.State))
	dst = le.AppendUint32(dst, l.Flags)
	dst = le.AppendUint64(dst, 0)
	if l.Version == LeaseV2 {
		dst = append(dst, l.ParentKey[:]...)
		dst = le.AppendUint16(dst, l.Epoch)
		dst = le.AppendUint16(dst, 0)
	}
	return dst
}
