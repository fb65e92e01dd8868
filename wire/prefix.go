package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrPrefix is matched by the errors that a bad length prefix causes. The fault is the peer's.
var ErrPrefix = errors.New("wire: the peer sent a bad length prefix")

// ReadUint32 reads four bytes, most significant first. io.EOF means that the stream ended before the
// first, io.ErrUnexpectedEOF that it ended after it.
func (r *Reader) ReadUint32() (uint32, error) {
	p, err := r.Peek(4)
	if err != nil {
		return 0, err
	}
	v := binary.BigEndian.Uint32(p)
	r.r += 4
	return v, nil
}

// ReadUvarint reads a number as encoding/binary and Protocol Buffers encode it, in one to ten bytes.
// io.EOF means that the stream ended before the first, io.ErrUnexpectedEOF that it ended after it. A
// number above 64 bits is an error that matches ErrPrefix.
func (r *Reader) ReadUvarint() (uint64, error) {
	v, n := binary.Uvarint(r.mem[r.r:r.w])
	for n == 0 {
		have := r.w - r.r
		if have >= binary.MaxVarintLen64 { // too long already: the peer need not send its last byte
			n = -have
			break
		}
		if err := r.fill(have + 1); err != nil {
			if err == io.EOF && have > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		v, n = binary.Uvarint(r.mem[r.r:r.w])
	}
	if n < 0 {
		return 0, fmt.Errorf("%w: a number of more than 64 bits", ErrPrefix)
	}
	r.r += n
	return v, nil
}

// ReadPrefix32 is ReadUint32 of a length in bytes; one above limit is an error that matches ErrPrefix.
func (r *Reader) ReadPrefix32(limit int) (int, error) {
	v, err := r.ReadUint32()
	return within(uint64(v), limit, err)
}

// ReadPrefixUvarint is ReadUvarint of a length in bytes; one above limit is an error that matches
// ErrPrefix.
func (r *Reader) ReadPrefixUvarint(limit int) (int, error) {
	v, err := r.ReadUvarint()
	return within(v, limit, err)
}

func within(v uint64, limit int, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	if limit < 0 || v > uint64(limit) {
		return 0, fmt.Errorf("%w: it declares %d bytes, above the limit of %d", ErrPrefix, v, limit)
	}
	return int(v), nil
}

// WriteUint32 appends v in four bytes, most significant first.
func (b *Batch) WriteUint32(v uint32) { binary.BigEndian.PutUint32(b.Space(4), v) }

// WriteUvarint appends v in one to ten bytes, as encoding/binary and Protocol Buffers encode it.
func (b *Batch) WriteUvarint(v uint64) {
	for ; v >= 0x80; v >>= 7 {
		b.Space(1)[0] = byte(v) | 0x80
	}
	b.Space(1)[0] = byte(v)
}

// WriteUint32 appends v in four bytes, most significant first.
func (w *Writer) WriteUint32(v uint32) { w.batch.WriteUint32(v) }

// WriteUvarint appends v in one to ten bytes, as encoding/binary and Protocol Buffers encode it.
func (w *Writer) WriteUvarint(v uint64) { w.batch.WriteUvarint(v) }
