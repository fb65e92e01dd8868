package wire_test

import (
	"encoding/binary"
	"errors"

	"github.com/tarn-go/tarn/wire"
)

// prefixLen is the length of what stands in front of the tests' frames.
const prefixLen = 4

func putPrefix(p []byte, n int) { binary.BigEndian.PutUint32(p, uint32(n)) }

// readPrefix reads the length of the next frame.
func readPrefix(r *wire.Reader, limit int) (int, error) {
	p, err := r.Peek(prefixLen)
	if err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(p)
	if n > uint32(limit) {
		return 0, errors.New("a frame beyond the limit")
	}
	_, err = r.Discard(prefixLen)
	return int(n), err
}
