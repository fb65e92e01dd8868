package dcerpc

import (
	"context"
	"fmt"
)

// Share is one share of a server (MS-SRVS 2.2.4.23).
type Share struct {
	Name, Comment string
	// Type is 0 for a disk, 1 for a printer, 3 for IPC, with [ShareSpecial] and
	// [ShareTemporary] added (MS-SRVS 2.2.2.4).
	Type uint32
}

// Flags of a share's type (MS-SRVS 2.2.2.4).
const (
	ShareSpecial   uint32 = 0x80000000
	ShareTemporary uint32 = 0x40000000
)

const (
	opShareEnum = 15 // NetrShareEnum (MS-SRVS 3.1.4.8)
	levelOne    = 1

	errorMoreData = 234 // MS-ERREF 2.2
)

// ListShares lists a server's shares over pipe, its newly opened pipe "srvsvc". server is the name put into
// the request; servers ignore it. The errors match [ErrMalformed] and [ErrRefused], or are the pipe's.
func ListShares(ctx context.Context, pipe Pipe, server string) ([]Share, error) {
	c := conn{pipe: pipe}
	if err := c.bind(ctx); err != nil {
		return nil, err
	}
	answer, err := c.invoke(ctx, opShareEnum, encodeShareEnum(server))
	if err != nil {
		return nil, err
	}
	return decodeShareEnum(answer)
}

func encodeShareEnum(server string) []byte {
	b := le.AppendUint32(nil, 0x20000) // pointer to ServerName
	b = appendString(b, `\\`+server)
	b = le.AppendUint32(b, levelOne) // InfoStruct: level
	b = le.AppendUint32(b, levelOne) // which arm of the union
	b = le.AppendUint32(b, 0x20004)  // pointer to the container
	b = le.AppendUint32(b, 0)        // with no entries
	b = le.AppendUint32(b, 0)        // and no array
	b = le.AppendUint32(b, ^uint32(0))
	b = le.AppendUint32(b, 0x20008) // pointer to ResumeHandle
	return le.AppendUint32(b, 0)
}

func decodeShareEnum(b []byte) ([]Share, error) {
	r := reader{b: b}
	level, arm, container := r.uint32(), r.uint32(), r.uint32()
	if level != levelOne || arm != levelOne {
		return nil, fmt.Errorf("%w: shares at another level", ErrMalformed)
	}
	var shares []Share
	if container != 0 {
		count, array := r.uint32(), r.uint32()
		if array != 0 {
			shares = r.shares(count)
		}
	}
	r.uint32() // TotalEntries
	if r.uint32() != 0 {
		r.uint32() // ResumeHandle
	}
	result := r.uint32()
	if r.bad {
		return nil, fmt.Errorf("%w: truncated list of shares", ErrMalformed)
	}
	if result != 0 && result != errorMoreData {
		return nil, fmt.Errorf("%w: listing shares, error %d", ErrRefused, result)
	}
	return shares, nil
}

// shares reads the array: first the fixed parts of all entries, then the strings of all.
func (r *reader) shares(count uint32) []Share {
	const fixed = 12
	if most := r.uint32(); r.bad || count != most || uint64(count)*fixed > uint64(len(r.b)-r.at) {
		r.bad = true
		return nil
	}
	type pointers struct{ name, comment uint32 }
	shares, at := make([]Share, count), make([]pointers, count)
	for i := range shares {
		at[i].name, shares[i].Type, at[i].comment = r.uint32(), r.uint32(), r.uint32()
	}
	for i := range shares {
		if at[i].name != 0 {
			shares[i].Name = r.string()
		}
		if at[i].comment != 0 {
			shares[i].Comment = r.string()
		}
	}
	return shares
}
