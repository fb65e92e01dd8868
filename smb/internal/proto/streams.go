package proto

// Stream is a named stream of a file (MS-FSCC 2.4.49).
type Stream struct {
	Name       []byte // UTF-16LE, ":name:$DATA"; aliases the message
	Size       uint64 // bytes
	Allocation uint64 // bytes
}

// DecodeStreams reads structures of ClassStream, one after the other.
func DecodeStreams(b []byte) ([]Stream, error) {
	const name, fixed = "FileStreamInformation", 24
	var list []Stream
	for len(b) > 0 {
		cur, rest, err := chained(b, name, fixed)
		if err != nil {
			return nil, err
		}
		n, ok := slice(cur, fixed, le.Uint32(cur[4:]))
		if !ok {
			return nil, malformed(name, reasonBounds)
		}
		if !isSize(le.Uint64(cur[8:])) {
			return nil, malformed(name, reasonLength)
		}
		list = append(list, Stream{Name: n, Size: le.Uint64(cur[8:]), Allocation: le.Uint64(cur[16:])})
		b = rest
	}
	return list, nil
}

// EA is an extended attribute (MS-FSCC 2.4.16).
type EA struct {
	Name  string // at most 255 bytes of an 8-bit character set
	Value []byte // at most 65,535 bytes; none deletes the attribute
}

// Append appends the structure of ClassFullEA.
func (e *EA) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, 0)
	dst = append(dst, 0, uint8(len(e.Name)))
	dst = le.AppendUint16(dst, uint16(len(e.Value)))
	dst = append(append(dst, e.Name...), 0)
	return append(dst, e.Value...)
}

// DecodeEAs reads structures of ClassFullEA, one after the other. Values alias b.
func DecodeEAs(b []byte) ([]EA, error) {
	const name, fixed = "FileFullEaInformation", 8
	var list []EA
	for len(b) > 0 {
		cur, rest, err := chained(b, name, fixed)
		if err != nil {
			return nil, err
		}
		n, ok := slice(cur, fixed, uint32(cur[5]))
		if !ok {
			return nil, malformed(name, reasonBounds)
		}
		v, ok := slice(cur, fixed+uint32(cur[5])+1, uint32(le.Uint16(cur[6:])))
		if !ok {
			return nil, malformed(name, reasonBounds)
		}
		list = append(list, EA{Name: string(n), Value: v})
		b = rest
	}
	return list, nil
}

// DecodeSnapshots reads the output of FSCTL_SRV_ENUMERATE_SNAPSHOTS: the number of snapshots, the bytes
// needed for all their names, and the names that fitted (2.2.32.2).
func DecodeSnapshots(b []byte) (count, size uint32, names []string, err error) {
	const name = "SRV_SNAPSHOT_ARRAY"
	if len(b) < 12 {
		return 0, 0, nil, malformed(name, reasonShort)
	}
	count, size = le.Uint32(b), le.Uint32(b[8:])
	returned := le.Uint32(b[4:])
	list := b[12:]
	for range returned {
		end := 0
		for end+1 < len(list) && (list[end] != 0 || list[end+1] != 0) {
			end += 2
		}
		if end+1 >= len(list) {
			return 0, 0, nil, malformed(name, reasonBounds)
		}
		names = append(names, DecodeUTF16(list[:end]))
		list = list[end+2:]
	}
	return count, size, names, nil
}

// Range is a range of a file (MS-FSCC 2.3.32, 2.3.48).
type Range struct{ Offset, Length uint64 }

// AppendRange appends the input of FSCTL_QUERY_ALLOCATED_RANGES.
func AppendRange(dst []byte, r Range) []byte {
	return le.AppendUint64(le.AppendUint64(dst, r.Offset), r.Length)
}

// AppendZeroData appends the input of FSCTL_SET_ZERO_DATA (MS-FSCC 2.3.67).
func AppendZeroData(dst []byte, r Range) []byte {
	return le.AppendUint64(le.AppendUint64(dst, r.Offset), r.End())
}

// End is the offset behind the range.
func (r Range) End() uint64 { return r.Offset + r.Length }

// DecodeRanges reads the output of FSCTL_QUERY_ALLOCATED_RANGES, whose ranges are in ascending order (MS-FSCC 2.3.48).
func DecodeRanges(b []byte) ([]Range, error) {
	const name = "FILE_ALLOCATED_RANGE_BUFFER"
	if len(b)%16 != 0 {
		return nil, malformed(name, reasonSize)
	}
	list, end := make([]Range, 0, len(b)/16), uint64(0)
	for ; len(b) > 0; b = b[16:] {
		r := Range{le.Uint64(b), le.Uint64(b[8:])}
		if !isSize(r.Offset) || !isSize(r.Length) || !isSize(r.End()) {
			return nil, malformed(name, reasonLength)
		}
		if r.Offset < end {
			return nil, malformed(name, reasonOrder)
		}
		end = r.End()
		list = append(list, r)
	}
	return list, nil
}
