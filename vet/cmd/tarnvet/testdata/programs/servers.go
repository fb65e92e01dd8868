package programs

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/wire"
)

var errTooLong = errors.New("too long")

// 1. An echo server.
func echo(conn net.Conn, p *tarn.Pool) error {
	r, w := wire.NewReader(conn, p), wire.NewWriter(conn, p)
	defer r.Release()
	defer w.Release()
	for {
		n, err := r.ReadPrefix32(1 << 20)
		if err != nil {
			return err
		}
		b, err := r.Next(n)
		if err != nil {
			return err
		}
		w.WriteUint32(uint32(n))
		w.Append(b)
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

// 2. The same, and a bad message is dropped without its Free.
func echoShort(conn net.Conn, p *tarn.Pool) error {
	r, w := wire.NewReader(conn, p), wire.NewWriter(conn, p)
	defer r.Release()
	defer w.Release()
	for {
		n, err := r.ReadPrefix32(1 << 20)
		if err != nil {
			return err
		}
		b, err := r.Next(n) // want "leak: b from r.Next"
		if err != nil {
			return err
		}
		if b.Len() > 0 && b.Bytes()[0] == 0xff {
			return errTooLong
		}
		w.Append(b)
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

// 3. A proxy that reads the header of what it passes on, after it passed it on.
func proxy(in *wire.Reader, out *wire.Writer, count map[byte]int) error {
	for {
		b, err := in.Next(16)
		if err != nil {
			return err
		}
		out.Append(b)
		count[b.Bytes()[0]]++ // want "use after free: out.Append took ownership of b"
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// 4. A handler that answers with what it received.
func mirror(w http.ResponseWriter, r *http.Request) {
	var body tarn.Chain
	defer body.Free()
	for {
		err := h2http.BodyChain(r, &body)
		if err == io.EOF {
			break
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	if err := h2http.WriteChain(w, &body); err != nil {
		return
	}
}

// 5. A handler that decodes JSON from pooled bytes, and returns early on an error.
func decode(p *tarn.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b := p.Get(int(r.ContentLength)) // want "leak: b from p.Get"
		if _, err := io.ReadFull(r.Body, b.Bytes()); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var v struct{ Name string }
		err := json.Unmarshal(b.Bytes(), &v)
		b.Free()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		io.WriteString(w, v.Name)
	}
}

func decodeFreed(p *tarn.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b := p.Get(int(r.ContentLength))
		defer b.Free()
		if _, err := io.ReadFull(r.Body, b.Bytes()); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var v struct{ Name string }
		if err := json.Unmarshal(b.Bytes(), &v); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		io.WriteString(w, v.Name)
	}
}

// 6. A session with a reading and a writing goroutine.
type session struct {
	conn net.Conn
	pool *tarn.Pool
	out  chan tarn.Buffer
	done chan struct{}
	once sync.Once
}

func newSession(conn net.Conn, p *tarn.Pool) *session {
	s := &session{conn: conn, pool: p, out: make(chan tarn.Buffer, 16), done: make(chan struct{})}
	go s.write()
	return s
}

func (s *session) write() {
	w := wire.NewWriter(s.conn, s.pool)
	defer w.Release()
	for {
		select {
		case b := <-s.out:
			w.Append(b)
			if err := w.Flush(); err != nil {
				s.close()
				return
			}
		case <-s.done:
			return
		}
	}
}

// send takes ownership of b.
func (s *session) send(b tarn.Buffer) error {
	select {
	case s.out <- b:
		return nil
	case <-s.done:
		b.Free()
		return net.ErrClosed
	}
}

// sendLeaky takes ownership of b.
func (s *session) sendLeaky(b tarn.Buffer) error { // want "leak: sendLeaky takes ownership of b"
	select {
	case s.out <- b:
		return nil
	case <-s.done:
		return net.ErrClosed
	}
}

func (s *session) close() { s.once.Do(func() { close(s.done) }) }

// 7. Drain the queue at the end.
func (s *session) drain() {
	for {
		select {
		case b := <-s.out:
			b.Free()
		default:
			return
		}
	}
}

func (s *session) drainLeaky() (n int) {
	for {
		select {
		case b := <-s.out: // want "leak: the reference from <-s.out"
			n += b.Len()
		default:
			return n
		}
	}
}

// 8. A broadcast: each subscriber has a reference of its own.
func broadcast(b tarn.Buffer, subs []*session) {
	for _, s := range subs {
		if err := s.send(b.Ref()); err != nil {
			continue
		}
	}
	b.Free()
}

func broadcastTwice(b tarn.Buffer, subs []*session) {
	for _, s := range subs {
		if err := s.send(b); err != nil { // want "use after free: s.send took ownership of b"
			continue
		}
	}
}

// 9. A request with a timeout.
func request(ctx context.Context, p *tarn.Pool, s *session, head [8]byte) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	b, err := p.Acquire(ctx, 64)
	if err != nil {
		return err
	}
	copy(b.Bytes(), head[:])
	return s.send(b)
}

func requestLeaky(ctx context.Context, p *tarn.Pool, s *session, head []byte) error {
	b, err := p.Acquire(ctx, 64) // want "leak: b from p.Acquire"
	if err != nil {
		return err
	}
	if len(head) > b.Len() {
		return errTooLong
	}
	copy(b.Bytes(), head)
	return s.send(b)
}

// 10. Frames by hand, over bufio.
func frames(r *bufio.Reader, p *tarn.Pool, handle func(tarn.Buffer) error) error {
	var head [4]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		b := p.Get(int(binary.BigEndian.Uint32(head[:])))
		if _, err := io.ReadFull(r, b.Bytes()); err != nil {
			b.Free()
			return err
		}
		if err := handle(b); err != nil { // it frees
			return err
		}
	}
}

// 11. Retry with a reference for each attempt.
func retry(b tarn.Buffer, attempts int, try func(tarn.Buffer) error) (err error) {
	defer b.Free()
	for range attempts {
		if err = try(b.Ref()); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// 12. Hold bytes beyond the reference.
type request12 struct {
	method []byte
	b      tarn.Buffer
}

func parse(b tarn.Buffer) *request12 {
	return &request12{method: b.Bytes()[:3], b: b}
}

func (r *request12) Free() { r.b.Free() }

func methodOf(p *tarn.Pool, line []byte) []byte {
	b := p.Copy(line)
	defer b.Free()
	return b.Bytes()[:3] // want "escape: bytes of b"
}

func textOf(p *tarn.Pool, line []byte) string {
	b := p.Copy(line)
	defer b.Free()
	return string(b.Bytes()[:3])
}
