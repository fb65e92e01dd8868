package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
)

// verbatim is a compressor that does not change messages, and whose readers count their Closes.
type verbatim struct{ closed *int }

func (verbatim) Name() string { return "verbatim" }

func (verbatim) Compress(w io.Writer) (io.WriteCloser, error) { return writer{w}, nil }

func (v verbatim) Decompress(r io.Reader) (io.Reader, error) { return reader{r, v.closed}, nil }

type writer struct{ io.Writer }

func (writer) Close() error { return nil }

type reader struct {
	io.Reader
	closed *int
}

func (r reader) Close() error {
	*r.closed++
	return nil
}

// TestDecompressCloses closes a compressor's reader once a message.
func TestDecompressCloses(t *testing.T) {
	pool := tarntest.NewPool(t)
	closed := 0
	for range 3 {
		closed = 0
		m, err := Decompress(pool, verbatim{&closed}, Message{Buf: pool.Copy([]byte("as it is"))}, 100)
		if err != nil {
			t.Fatal(err)
		}
		m.Free()
		if closed != 1 {
			t.Errorf("the reader was closed %d times, want once", closed)
		}
	}
}

// half is a compressor whose writers write half of what they are given, without an error, which io.Writer forbids.
type half struct{ verbatim }

func (half) Compress(w io.Writer) (io.WriteCloser, error) { return halfWriter{writer{w}}, nil }

type halfWriter struct{ writer }

func (w halfWriter) Write(p []byte) (int, error) { return w.writer.Write(p[:len(p)/2]) }

// TestCompressShortWrite: a message of which a compressor has taken a part is not sent.
func TestCompressShortWrite(t *testing.T) {
	pool := tarntest.NewPool(t)
	if m, err := Compress(pool, half{}, Message{Buf: pool.Copy([]byte("as it is"))}); !errors.Is(err, io.ErrShortWrite) {
		m.Free()
		t.Errorf("%v, want %v", err, io.ErrShortWrite)
	}
}

// TestDecompressConcurrently decompresses messages by grpc-go's gzip concurrently. Each has its original content,
// also where the readers put themselves into a pool.
func TestDecompressConcurrently(t *testing.T) {
	pool := tarntest.NewPool(t)
	c := encoding.GetCompressor(gzip.Name)
	var wg sync.WaitGroup
	for i := range 4 {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for range 200 {
				want := bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN(20_000))
				m, err := Compress(pool, c, Message{Buf: pool.Copy(want)})
				if err == nil {
					m, err = Decompress(pool, c, m, len(want))
				}
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(m.Flatten(), want) {
					t.Errorf("a message of %d bytes has another one's content", len(want))
				}
				m.Free()
			}
		})
	}
	wg.Wait()
}

// TestDecompressDamaged: a message of gzip that has been cut anywhere, or whose checksum is wrong, is refused.
func TestDecompressDamaged(t *testing.T) {
	pool := tarntest.NewPool(t)
	c := encoding.GetCompressor(gzip.Name)
	for _, size := range []int{100, firstChunk, 3 * firstChunk} {
		plain := make([]byte, size)
		rng := rand.New(rand.NewPCG(1, uint64(size)))
		for i := range plain {
			plain[i] = byte(rng.Uint32())
		}
		var packed bytes.Buffer
		w, err := c.Compress(&packed)
		if err == nil {
			_, err = w.Write(plain)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		whole := packed.Bytes()
		check := func(name string, b []byte, good bool) {
			m, err := Decompress(pool, c, Message{Buf: pool.Copy(b)}, 10*size)
			if err == nil {
				m.Free()
			}
			if (err == nil) != good {
				t.Errorf("%d bytes, %s: %v", size, name, err)
			}
		}
		check("whole", whole, true)
		for _, cut := range []int{1, 4, 8, 9, len(whole) / 2, len(whole) - 11} {
			check(fmt.Sprintf("without the last %d", cut), whole[:len(whole)-cut], false)
		}
		wrong := bytes.Clone(whole)
		wrong[len(wrong)-6] ^= 1
		check("another checksum", wrong, false)
	}
}

// zeroes is a compressor whose readers return zeroes without end, and count them.
type zeroes struct {
	verbatim
	read *int
}

func (z zeroes) Decompress(io.Reader) (io.Reader, error) { return zeroReader(z), nil }

type zeroReader zeroes

func (z zeroReader) Read(p []byte) (int, error) {
	clear(p)
	*z.read += len(p)
	return len(p), nil
}

// TestDecompressTooLarge: of a message that decompresses to more than the limit, one byte beyond the limit is produced.
func TestDecompressTooLarge(t *testing.T) {
	for _, limit := range []int{0, 1, firstChunk - 1, firstChunk, 3 * firstChunk, 4 << 20, 4<<20 + 1} {
		read := 0
		_, err := Decompress(tarntest.NewPool(t), zeroes{read: &read}, Message{}, limit)
		if !errors.Is(err, ErrTooLarge) || read != limit+1 {
			t.Errorf("a limit of %d: %d bytes were produced, %v", limit, read, err)
		}
	}
}
