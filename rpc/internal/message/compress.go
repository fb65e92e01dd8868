package message

import (
	"fmt"
	"io"

	"github.com/tarn-go/tarn"
	"google.golang.org/grpc/encoding"
)

const (
	// firstChunk and lastChunk bound the buffers by which a decompressed message grows, in bytes: they
	// double, so memory depends on the actual output.
	firstChunk = 4 << 10
	lastChunk  = 1 << 20
)

// Compress takes ownership of m and returns it compressed, to be freed.
func Compress(a *tarn.Pool, c encoding.Compressor, m Message) (Message, error) {
	defer m.Free()
	w := tarn.NewWriter(a)
	defer w.Free() // what Take leaves, which is everything if the compressor panics
	zw, err := c.Compress(w)
	if err == nil {
		p, n := m.Flatten(), 0
		if n, err = zw.Write(p); err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if cerr := zw.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return Message{}, fmt.Errorf("rpc: compressor %q: %w", c.Name(), err)
	}
	chain := w.Take()
	return Message{Chain: &chain}, nil
}

// Decompress takes ownership of m and returns it decompressed, to be freed, at most limit bytes of it:
// ErrTooLarge means that there was more. The remaining output is not produced, so a decompression bomb costs
// at most limit and one byte.
func Decompress(a *tarn.Pool, c encoding.Compressor, m Message, limit int) (Message, error) {
	defer m.Free()
	r, err := Decompressor(c, &byteReader{b: m.Flatten()})
	if err != nil {
		return Message{}, fmt.Errorf("rpc: peer's message does not decompress: %w", err)
	}
	out, complete := new(tarn.Chain), false
	defer func() { // also if the decompressor panics
		if !complete {
			out.Free()
		}
	}()
	err = readLimited(a, r, out, limit)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return Message{}, err
	}
	complete = true
	return Message{Chain: out}, nil
}

// Decompressor reads the content of src, decompressed by c. It must be closed once, which closes c's reader
// if that has a Close, as in grpc-go.
func Decompressor(c encoding.Compressor, src io.Reader) (io.ReadCloser, error) {
	r, err := c.Decompress(src)
	if err != nil {
		return nil, err
	}
	if rc, ok := r.(io.ReadCloser); ok {
		return rc, nil
	}
	return io.NopCloser(r), nil
}

func readLimited(a *tarn.Pool, r io.Reader, out *tarn.Chain, limit int) error {
	for size := firstChunk; ; size = min(2*size, lastChunk) {
		err := appendChunk(a, r, out, min(size-1, limit-out.Len())+1)
		if out.Len() > limit {
			return ErrTooLarge
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("rpc: peer's message does not decompress: %w", err)
		}
	}
}

// appendChunk appends up to size bytes of r to out.
func appendChunk(a *tarn.Pool, r io.Reader, out *tarn.Chain, size int) error {
	b, n := a.Get(size), 0
	defer func() { // also if r panics
		if n > 0 {
			out.Append(b.Narrow(0, n))
		} else {
			b.Free()
		}
	}()
	var err error
	n, err = readChunk(r, b.Bytes())
	return err
}

// readChunk reads until p is full or r returns an error, and returns that as it is: io.ReadFull returns io.ErrUnexpectedEOF at r's end, and so
// does a decompressor whose input has been cut.
func readChunk(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = r.Read(p[n:])
		n += k
	}
	return n, err
}

// byteReader is a bytes.Reader without the methods with which a decompressor could do more than read (Seek,
// UnreadByte).
type byteReader struct{ b []byte }

func (r *byteReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.b)
	r.b = r.b[n:]
	return n, nil
}

func (r *byteReader) ReadByte() (byte, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c, nil
}
