package programs

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/wire"
)

// 37. A pool of workers that are lent a buffer until they reply.
type lentJob struct {
	b    tarn.Buffer
	done chan error
}

func lendToWorker(p *tarn.Pool, jobs chan *lentJob) error {
	j := &lentJob{b: p.Get(10), done: make(chan error, 1)}
	jobs <- j
	err := <-j.done
	j.b.Free()
	return err
}

func lendToWorkerEarly(p *tarn.Pool, jobs chan tarn.Buffer) {
	b := p.Get(10)
	defer b.Free() // want "use after free: b was sent"
	jobs <- b
}

// 38. Sending with retries.
func sendWithRetry(ctx context.Context, p *tarn.Pool, ch chan tarn.Buffer) error {
	b := p.Get(10)
	for {
		select {
		case ch <- b:
			return nil
		case <-ctx.Done():
			b.Free()
			return ctx.Err()
		case <-time.After(time.Second):
			b.Bytes()[0]++
		}
	}
}

// 39. A decoder that is used again for each message.
type messageDecoder struct {
	src []byte
	pos int
}

func (d *messageDecoder) reset(src []byte) { d.src, d.pos = src, 0 }

func (d *messageDecoder) next() (byte, bool) {
	if d.pos == len(d.src) {
		return 0, false
	}
	d.pos++
	return d.src[d.pos-1], true
}

func decodeAll(p *tarn.Pool, d *messageDecoder) (n int) {
	b := p.Get(10)
	d.reset(b.Bytes())
	for x, ok := d.next(); ok; x, ok = d.next() {
		n += int(x)
	}
	b.Free()
	return n
}

func decodeLater(p *tarn.Pool, d *messageDecoder) {
	b := p.Get(10)
	d.reset(b.Bytes()) // want "escape: bytes of b are kept by d.reset"
	b.Free()
}

// 40. Vectored writes.
type vectors struct {
	vec  [][]byte
	conn net.Conn
}

func (v *vectors) flush() error {
	bufs := net.Buffers(v.vec)
	_, err := bufs.WriteTo(v.conn)
	clear(v.vec)
	v.vec = v.vec[:0]
	return err
}

func (v *vectors) send(p *tarn.Pool) error {
	b := p.Get(10)
	defer b.Free()
	v.vec = append(v.vec, []byte("head"), b.Bytes())
	return v.flush()
}

func (v *vectors) queue(p *tarn.Pool) {
	b := p.Get(10)
	defer b.Free()
	v.vec = append(v.vec, []byte("head"), b.Bytes()) // want "escape: bytes of b are stored in v.vec"
}

// 41. Words and lines of a buffer.
func words(p *tarn.Pool) (list []string, err error) {
	b := p.Get(10)
	defer b.Free()
	sc := bufio.NewScanner(bytes.NewReader(b.Bytes()))
	for sc.Scan() {
		list = append(list, sc.Text())
	}
	return list, sc.Err()
}

func rawWords(p *tarn.Pool) [][]byte {
	b := p.Get(10)
	defer b.Free()
	return bytes.Fields(b.Bytes()) // want "escape: bytes of b are returned"
}

// 42. A writer that ends before the function does, whatever happens.
func writeBeside(p *tarn.Pool, conn, other net.Conn) error {
	b := p.Get(10)
	defer b.Free()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Add(1)
	go func() {
		defer wg.Done()
		other.Write(b.Bytes())
	}()
	_, err := conn.Write(b.Bytes())
	return err
}

func writeAlone(p *tarn.Pool, conn net.Conn) {
	b := p.Get(10)
	defer b.Free()
	go func() { // want "escape: bytes of b are used by a goroutine"
		conn.Write(b.Bytes())
	}()
}

// 43. A pipe within the program.
func throughPipe(p *tarn.Pool) error {
	b := p.Get(10)
	defer b.Free()
	pr, pw := io.Pipe()
	go func() {
		_, err := pw.Write(b.Bytes())
		pw.CloseWithError(err)
	}()
	_, err := io.Copy(io.Discard, pr)
	return err
}

// 44. A reader's bytes beyond its next method.
func keyAndValue(r *wire.Reader) (string, error) {
	key, err := r.ReadSlice('=')
	if err != nil {
		return "", err
	}
	value, err := r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return string(key) + string(value), nil // want "use after free: these bytes are borrowed until the next call of a method of r"
}

func keyThenValue(r *wire.Reader) (string, error) {
	key, err := r.ReadSlice('=')
	if err != nil {
		return "", err
	}
	line := string(key)
	value, err := r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return line + string(value), nil
}

func magic(conn net.Conn, p *tarn.Pool) ([]byte, error) {
	r := wire.NewReader(conn, p)
	defer r.Release()
	return r.Peek(4) // want "escape: bytes that r lends are returned"
}

// 45. A test's helper that frees when the test ends, or when it is told to.
func oneOfTest(t *testing.T, p *tarn.Pool) (tarn.Buffer, func()) {
	b := p.Get(10)
	var once sync.Once
	free := func() { once.Do(b.Free) }
	t.Cleanup(free)
	return b, free
}

func freesEarly(t *testing.T, p *tarn.Pool) {
	b, free := oneOfTest(t, p)
	_ = b.Bytes()
	free()
}

func cleanedUp(t *testing.T, p *tarn.Pool) tarn.Buffer {
	b := p.Get(10)
	t.Cleanup(b.Free)
	return b
}

func freesTwice(t *testing.T, p *tarn.Pool) {
	b := cleanedUp(t, p)
	defer b.Free() // want "double free: b is freed here, and again when the test ends"
	_ = b.Bytes()
}

// 46. Views and their reference in one struct.
type packet struct {
	head, body []byte
	own        tarn.Buffer
}

// Free frees the packet's memory.
func (k *packet) Free() { k.own.Free() }

func nextPacket(r *wire.Reader) (*packet, error) {
	b, err := r.Next(100)
	if err != nil {
		return nil, err
	}
	k := &packet{own: b}
	k.head, k.body = b.Bytes()[:10], b.Bytes()[10:]
	if k.head[0] != 7 {
		k.Free()
		return nil, errTooLong
	}
	return k, nil
}

func headOf(r *wire.Reader) (k packet, err error) {
	b, err := r.Next(100)
	if err != nil {
		return k, err
	}
	defer b.Free()
	k.head = b.Bytes()[:10]
	return k, nil // want "escape: bytes of b are returned"
}
