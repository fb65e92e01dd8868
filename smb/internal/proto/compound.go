package proto

// Elements iterates over a compound: the messages chained by NextCommand (3.2.5.1.9). Its zero value is
// empty. It is a value: copying it copies the position.
//
//	for e := proto.NewElements(frame); e.Next(); {
//		use(e.Message())
//	}
type Elements struct {
	rest, cur []byte
	err       error
}

// NewElements iterates over frame, one complete direct-TCP frame or decrypted message. It borrows frame.
func NewElements(frame []byte) Elements { return Elements{rest: frame} }

// Next moves to the next message and reports whether there is one. When it returns false, Err says whether an
// error ended the iteration.
func (e *Elements) Next() bool {
	e.cur = nil
	if e.err != nil || len(e.rest) == 0 {
		return false
	}
	if len(e.rest) < HeaderSize {
		e.err = malformed("compound", "a message shorter than its header")
		return false
	}
	next := le.Uint32(e.rest[OffsetNextCommand:])
	if next == 0 {
		e.cur, e.rest = e.rest, nil
		return true
	}
	// 2.2.1.2: a multiple of 8. It must be at least a header long, so that every step moves on.
	if next < HeaderSize || next&7 != 0 || uint64(next) >= uint64(len(e.rest)) {
		e.err = malformed("compound", "bad NextCommand")
		return false
	}
	e.cur, e.rest = e.rest[:next:next], e.rest[next:]
	return true
}

// Message is the message Next moved to, header, body and the padding behind it
// included. It aliases the frame.
func (e *Elements) Message() []byte { return e.cur }

// Err is the error that ended the iteration, nil after a complete one.
func (e *Elements) Err() error { return e.err }

// PadCompound appends zeros until the message that began at start is a multiple of 8 bytes long, and writes
// that length into its NextCommand, as every message of a compound but the last needs (3.2.4.1.4).
func PadCompound(dst []byte, start int) []byte {
	dst = pad(dst, start)
	le.PutUint32(dst[start+OffsetNextCommand:], uint32(len(dst)-start))
	return dst
}
