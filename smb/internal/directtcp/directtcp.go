// Package directtcp frames SMB messages over TCP (MS-SMB2 section 2.1): one zero byte and a big-endian length
// of three bytes precede each message.
package directtcp

import (
	"errors"
	"fmt"

	"github.com/tarn-go/tarn/wire"
)

const (
	// HeaderLen is the length of a frame's header in bytes.
	HeaderLen = 4
	// MaxLen is the longest payload, in bytes, that a header can declare.
	MaxLen = 1<<24 - 1
)

// ErrHeader is matched (errors.Is) by the error for a bad frame header from the peer.
var ErrHeader = errors.New("smb: the peer sent a bad frame header")

// PutHeader stores the header of a frame with n bytes of payload in the first
// HeaderLen bytes of dst. It panics if dst is shorter or n is outside 0..MaxLen.
func PutHeader(dst []byte, n int) {
	if n < 0 || n > MaxLen {
		panic("smb: a frame longer than its header can declare")
	}
	_ = dst[HeaderLen-1]
	dst[0], dst[1], dst[2], dst[3] = 0, byte(n>>16), byte(n>>8), byte(n)
}

// ReadHeader reads the header of the next frame and returns the length of its payload, which r reads next.
// io.EOF means that the stream ended between frames. A first byte that is not zero, or a length above limit,
// is an error that matches ErrHeader; then the header is still unread.
func ReadHeader(r *wire.Reader, limit int) (int, error) {
	h, err := r.Peek(HeaderLen)
	if err != nil {
		return 0, err
	}
	n := int(h[1])<<16 | int(h[2])<<8 | int(h[3])
	if h[0] != 0 {
		return 0, fmt.Errorf("%w: its first byte is %#02x, not zero", ErrHeader, h[0])
	}
	if n > limit {
		return 0, fmt.Errorf("%w: it declares %d bytes, above the limit of %d", ErrHeader, n, limit)
	}
	_, err = r.Discard(HeaderLen)
	return n, err
}
