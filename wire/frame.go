package wire

import (
	"errors"
	"fmt"
	"io"
)

// FrameHeaderLen is the length in bytes of the header of a length-prefixed frame:
// one zero byte and a big-endian length of three bytes, as the direct TCP
// transport of SMB has it (MS-SMB2 section 2.1).
const FrameHeaderLen = 4

// MaxFrameLen is the longest payload, in bytes, that such a header can declare.
const MaxFrameLen = 1<<24 - 1

// ErrFrame matches (errors.Is) every error that a bad frame header causes. The
// fault is the peer's.
var ErrFrame = errors.New("wire: the peer sent a bad frame header")

// PutFrameHeader stores the header of a frame with n bytes of payload in the
// first FrameHeaderLen bytes of dst. It panics if dst is shorter or n is outside
// 0..MaxFrameLen.
func PutFrameHeader(dst []byte, n int) {
	if n < 0 || n > MaxFrameLen {
		panic("wire: a frame longer than its header can declare")
	}
	_ = dst[FrameHeaderLen-1]
	dst[0], dst[1], dst[2], dst[3] = 0, byte(n>>16), byte(n>>8), byte(n)
}

// FrameLen reads the header of the next frame and returns the length of its
// payload, which is what r stands before then. io.EOF means that the stream ended
// between frames. A first byte that is not zero, or a length above limit, is an
// error that matches ErrFrame; the header is then still unread.
func (r *Reader) FrameLen(limit int) (int, error) {
	h, err := r.Peek(FrameHeaderLen)
	if err != nil {
		return 0, err
	}
	n := int(h[1])<<16 | int(h[2])<<8 | int(h[3])
	if h[0] != 0 {
		return 0, fmt.Errorf("%w: its first byte is %#02x, not zero", ErrFrame, h[0])
	}
	if n > limit {
		return 0, fmt.Errorf("%w: it declares %d bytes, above the limit of %d", ErrFrame, n, limit)
	}
	r.r += FrameHeaderLen
	return n, nil
}

var _ io.Reader = (*Reader)(nil)
