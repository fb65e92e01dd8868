package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/tarn-go/tarn"
)

// This file has the methods by which the standard library and parsers of text use a Reader and a
// Writer: io.Copy either way, single bytes, delimiters.

// ErrUnread is returned by [Reader.UnreadByte] when the byte before the cursor is not buffered any
// more. The caller has done something else since ReadByte.
var ErrUnread = errors.New("wire: no byte to unread")

// ReadByte reads one byte. At the end of the stream it returns io.EOF.
func (r *Reader) ReadByte() (byte, error) {
	if r.r == r.w {
		if err := r.fill(1); err != nil {
			return 0, err
		}
	}
	v := r.mem[r.r]
	r.r++
	return v, nil
}

// UnreadByte moves back by the byte that ReadByte has just read.
func (r *Reader) UnreadByte() error {
	if r.r == 0 {
		return ErrUnread
	}
	r.r--
	return nil
}

// IndexByte returns the position of the first v among the bytes that are buffered, or -1. It never
// touches the connection.
func (r *Reader) IndexByte(v byte) int { return bytes.IndexByte(r.mem[r.r:r.w], v) }

// ReadSlice waits for delim and returns the bytes up to and including it. The slice is borrowed: it is
// valid until the next call of any method of r. If delim is not among the next MaxPeek bytes, the
// error is bufio.ErrBufferFull; if the stream ends before it, io.EOF when nothing came and
// io.ErrUnexpectedEOF otherwise. With an error nothing is returned and the cursor stays.
func (r *Reader) ReadSlice(delim byte) ([]byte, error) {
	for seen := 0; ; {
		if i := bytes.IndexByte(r.mem[r.r+seen:min(r.w, r.r+MaxPeek)], delim); i >= 0 {
			n := seen + i + 1
			p := r.mem[r.r : r.r+n : r.r+n]
			r.r += n
			return p, nil
		}
		if seen = r.w - r.r; seen >= MaxPeek {
			return nil, bufio.ErrBufferFull
		}
		if err := r.fill(min(max(2*seen, minRead), MaxPeek)); err != nil {
			if err == io.EOF && seen > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// WriteTo writes what comes until the end of the stream to w, straight from the receive buffer: it
// copies and allocates nothing. A w that is a [Writer] is passed references and flushed after each.
// Errors are the connection's or w's own, io.ErrShortWrite if w writes less without one, and tarn.ErrCount if
// it claims an impossible count; what w has not taken is still to be read.
func (r *Reader) WriteTo(w io.Writer) (written int64, err error) {
	own, _ := w.(*Writer)
	for {
		if r.r == r.w {
			if err := r.fill(1); err != nil {
				if err == io.EOF {
					err = nil
				}
				return written, err
			}
		}
		n := r.w - r.r
		if own != nil {
			own.Append(r.take(n))
			if err := own.Flush(); err != nil {
				return written, err
			}
			written += int64(n)
			continue
		}
		m, err := w.Write(r.mem[r.r:r.w])
		if m < 0 || m > n {
			return written, tarn.ErrCount
		}
		r.r += m
		written += int64(m)
		if err != nil {
			return written, err
		}
		if m < n {
			return written, io.ErrShortWrite
		}
	}
}

// WriteByte appends one byte. It never fails.
func (b *Batch) WriteByte(v byte) error {
	b.Space(1)[0] = v
	return nil
}

// WriteString appends a copy of s. It never fails.
func (b *Batch) WriteString(s string) (int, error) {
	n := len(s)
	for len(s) > 0 {
		if b.pos == len(b.mem) {
			b.grow(1)
		}
		m := copy(b.mem[b.pos:], s)
		b.pos += m
		b.size += m
		s = s[m:]
	}
	return n, nil
}

// WriteByte appends one byte. Errors come from Flush.
func (w *Writer) WriteByte(v byte) error { return w.batch.WriteByte(v) }

// WriteString appends a copy of s. Errors come from Flush.
func (w *Writer) WriteString(s string) (int, error) { return w.batch.WriteString(s) }

const (
	minSource = 4 << 10  // free bytes below which a new buffer is taken before a source is read
	flushFrom = 64 << 10 // bytes gathered from a source that are sent at once
	maxEmpty  = 100      // Reads in a row of nothing, without an error
)

// ReadFrom appends what src has until io.EOF, read straight into pooled memory, and sends it whenever
// 64 KiB are gathered; what remains goes with the next Flush. It allocates nothing. Errors are src's
// or the connection's own, io.ErrNoProgress when src keeps reading nothing, and tarn.ErrCount when it
// claims an impossible count.
func (w *Writer) ReadFrom(src io.Reader) (total int64, err error) {
	for empty := 0; ; {
		b := &w.batch
		if len(b.mem)-b.pos < minSource {
			b.grow(minSource)
		}
		space := b.mem[b.pos:]
		n, err := src.Read(space)
		if n < 0 || n > len(space) {
			return total, tarn.ErrCount
		}
		b.pos += n
		b.size += n
		total += int64(n)
		switch {
		case err == io.EOF:
			return total, nil
		case err != nil:
			return total, err
		case n > 0:
			empty = 0
		default:
			if empty++; empty == maxEmpty {
				return total, io.ErrNoProgress
			}
		}
		if b.Len() >= flushFrom {
			if err := w.Flush(); err != nil {
				return total, err
			}
		}
	}
}

var (
	_ io.WriterTo     = (*Reader)(nil)
	_ io.ByteScanner  = (*Reader)(nil)
	_ io.ReaderFrom   = (*Writer)(nil)
	_ io.StringWriter = (*Writer)(nil)
	_ io.ByteWriter   = (*Writer)(nil)
)
