package proto

// QUERY_DIRECTORY, QUERY_INFO and CHANGE_NOTIFY responses have one layout: an offset, a
// length, and the bytes.

func decodeOutput(msg []byte, name string) ([]byte, error) {
	b, err := body(msg, name, 9, 8)
	if err != nil {
		return nil, err
	}
	out, ok := variable(msg, uint32(le.Uint16(b[2:])), le.Uint32(b[4:]), HeaderSize+8)
	if !ok {
		return nil, malformed(name, reasonBounds)
	}
	return out, nil
}

// chained iterates over records that are linked by a NextEntryOffset at their beginning (MS-FSCC 2.4). Each
// step moves on by at least the fixed part, so records cannot loop.
func chained(b []byte, name string, fixed int) (cur, rest []byte, err error) {
	if len(b) < fixed {
		return nil, nil, malformed(name, reasonShort)
	}
	next := le.Uint32(b)
	if next == 0 {
		return b, nil, nil
	}
	if uint64(next) < uint64(fixed) || uint64(next) > uint64(len(b)) {
		return nil, nil, malformed(name, "bad NextEntryOffset")
	}
	return b[:next:next], b[next:], nil
}
