package std

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

func right(r io.Reader) (string, error) {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	buf.Reset()
	if _, err := buf.ReadFrom(r); err != nil {
		return "", err
	}
	return buf.String(), nil
}

func cloned() []byte {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	return bytes.Clone(buf.Bytes())
}

func appended() []byte {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	return append([]byte(nil), buf.Bytes()...)
}

func appendedToEmpty() []byte {
	b := slicePool.Get().([]byte)
	defer slicePool.Put(b)
	return append(b[:0:0], b...)
}

func eachPath(fail bool) error {
	buf := bufferPool.Get().(*bytes.Buffer)
	if fail {
		bufferPool.Put(buf)
		return io.EOF
	}
	buf.Reset()
	bufferPool.Put(buf)
	return nil
}

func decided(keep bool) []byte {
	buf := bufferPool.Get().(*bytes.Buffer)
	if !keep {
		bufferPool.Put(buf)
	}
	if keep {
		return buf.Bytes()
	}
	return nil
}

func byError(r io.Reader) ([]byte, error) {
	buf := bufferPool.Get().(*bytes.Buffer)
	_, err := buf.ReadFrom(r)
	if err != nil {
		bufferPool.Put(buf)
	}
	if err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func eachIteration(rs []io.Reader) {
	for _, r := range rs {
		buf := bufferPool.Get().(*bytes.Buffer)
		buf.ReadFrom(r)
		bufferPool.Put(buf)
	}
}

func list(r *request) {
	for r != nil {
		next := r.next
		requestPool.Put(r)
		r = next
	}
}

func detached() []byte {
	r := requestPool.Get().(*request)
	body := r.body
	r.body = nil
	requestPool.Put(r)
	return body
}

func zeroed() []byte {
	r := requestPool.Get().(*request)
	body := r.body
	*r = request{}
	requestPool.Put(r)
	return body
}

func replaced() {
	buf := bufferPool.Get().(*bytes.Buffer)
	bufferPool.Put(buf)
	buf = new(bytes.Buffer)
	buf.WriteString("x")
}

func reset(c *conn) {
	bufferPool.Put(c.buf)
	c.buf = nil
}

func again(c *conn) {
	reset(c)
	reset(c)
}

func once(c *conn) {
	if c.buf != nil {
		bufferPool.Put(c.buf)
		c.buf = nil
	}
}

func onceAndAgain(c *conn) {
	once(c)
	defer once(c)
}

func waits() {
	buf := bufferPool.Get().(*bytes.Buffer)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		os.Stdout.Write(buf.Bytes())
	}()
	wg.Wait()
	bufferPool.Put(buf)
}

func unstored(c *cache) {
	buf := bufferPool.Get().(*bytes.Buffer)
	c.last = buf.Bytes()
	c.flush()
	bufferPool.Put(buf)
}

func (c *cache) flush() { c.last = nil }

func putLen() int {
	b := slicePool.Get().([]byte)
	slicePool.Put(b)
	return len(b)
}

type counted struct {
	refs atomic.Int32
	data []byte
}

var countedPool sync.Pool

func (c *counted) Retain() { c.refs.Add(1) }

func (c *counted) Release() {
	if c.refs.Add(-1) > 0 {
		return
	}
	countedPool.Put(c)
}

func shares(c *counted, to chan *counted) {
	c.Retain()
	to <- c
	c.Release()
}

func retained(c *counted) []byte {
	c.Retain()
	defer c.Release()
	return c.data
}

// ref is what an unexported method that adds a reference is often called.
func (c *counted) ref() { c.refs.Add(1) }

func referenced() *counted {
	c := countedPool.Get().(*counted)
	defer c.Release()
	c.ref()
	return c
}

func releasedByFlag(buf *bytes.Buffer, done bool) {
	if done {
		bufferPool.Put(buf)
	}
}

func byFlag(done bool) {
	buf := bufferPool.Get().(*bytes.Buffer)
	releasedByFlag(buf, done)
	if !done {
		buf.Reset()
	}
}

var errClosed = errors.New("closed")

func sentinel(r io.Reader) error {
	buf := bufferPool.Get().(*bytes.Buffer)
	var err error
	if _, err = buf.ReadFrom(r); err != nil {
		bufferPool.Put(buf)
		err = errClosed
	}
	if err == nil {
		buf.Reset()
		bufferPool.Put(buf)
	}
	return err
}

func swapped(c *conn) *bytes.Buffer {
	old := c.buf
	c.buf = bufferPool.Get().(*bytes.Buffer)
	return old
}

func (c *conn) open() { c.buf = bufferPool.Get().(*bytes.Buffer) }

func reopened(c *conn) {
	c.close()
	c.open()
	c.buf.Reset()
	c.close()
}

func countedHere() {
	c := countedPool.Get().(*counted)
	for range 2 {
		if c.refs.Add(-1) == 0 {
			countedPool.Put(c)
		}
	}
}

func deferredInLoop() {
	for range 3 {
		buf := bufferPool.Get().(*bytes.Buffer)
		defer bufferPool.Put(buf)
	}
}

func swaps(out chan []byte) {
	in, obuf := slicePool.Get().([]byte), slicePool.Get().([]byte)
	go func() {
		if len(in) > 3 {
			in, obuf = obuf, in
		}
		out <- obuf
		slicePool.Put(in)
	}()
}

// The first element of a list stays, and goes last.
func merged(first *request) {
	for r := first; r != nil; {
		if r == first {
			r = r.next
		} else {
			old := r
			r = r.next
			requestPool.Put(old)
		}
	}
	first.id = 1
	requestPool.Put(first)
}

func clearedAfterwards(c *conn) {
	buf := bufferPool.Get().(*bytes.Buffer)
	c.buf = buf
	buf.WriteString("text")
	bufferPool.Put(buf)
	c.buf = nil
}

func takenOutAgain(c *conn, old *bytes.Buffer, use bool) {
	c.buf = bufferPool.Get().(*bytes.Buffer)
	last := old
	if use {
		last = c.buf
	}
	bufferPool.Put(last)
}

func readsAll(r io.Reader) ([]byte, error) {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	buf.ReadFrom(r)
	return io.ReadAll(io.LimitReader(buf, 10))
}

func responseWithItsOwnBody(data []byte) (*http.Response, error) {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	buf.Write(data)
	resp, err := http.ReadResponse(bufio.NewReader(buf), nil)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}

var listPool = sync.Pool{New: func() any { return new([]byte) }}

func freeList(p *[]byte) {
	*p = (*p)[:0]
	listPool.Put(p)
}

func grown(dst, src []byte) []byte { return append(dst, src...) }

// The pointer goes back with the caller's old bytes; its own are the caller's now.
func exchangedBytes(buf *[]byte) {
	dst := listPool.Get().(*[]byte)
	*buf, *dst = grown(*dst, *buf), *buf
	freeList(dst)
}

// The memory that the pointer leads to when it goes back goes back with it.
func regrown(data []byte) int {
	p := listPool.Get().(*[]byte)
	buf := *p
	defer func() {
		*p = buf[:0]
		listPool.Put(p)
	}()
	for cap(buf) < len(data) {
		buf = make([]byte, 0, 2*cap(buf)+1)
	}
	return copy(buf[:len(data)], data)
}

// With an error the result is not used.
func compressed(w io.Writer, data []byte) (*bytes.Buffer, error) {
	buf := bufferPool.Get().(*bytes.Buffer)
	buf.Write(data)
	if _, err := buf.WriteTo(w); err != nil {
		bufferPool.Put(buf)
		return buf, err
	}
	return buf, nil
}

func sentOrPutBack(to chan []byte, quit chan struct{}) {
	b := bufferPool.Get().(*bytes.Buffer)
	select {
	case to <- b.Bytes(): // its receiver puts it back
	case <-quit:
		bufferPool.Put(b)
	}
}

func pointedToAndCopied() []byte {
	p := bytesPool.Get().(*[]byte)
	b := append((*p)[:0], "hello"...)
	c := bytes.Clone(b)
	*p = b
	bytesPool.Put(p)
	return c
}

func exchangedSlab(mine []byte) []byte {
	p := bytesPool.Get().(*[]byte)
	old := *p
	*p = mine
	bytesPool.Put(p)
	return old
}

type job struct {
	text string
	done chan struct{}
}

var jobPool = sync.Pool{New: func() any { return &job{done: make(chan struct{}, 1)} }}

// The receiver says when it is through with the job.
func waitedFor(jobs chan *job, text string) bool {
	j := jobPool.Get().(*job)
	j.text = text
	select {
	case jobs <- j:
	default:
		jobPool.Put(j)
		return false
	}
	<-j.done
	jobPool.Put(j)
	return true
}

func sentAndWaitedFor(jobs chan *job, text string) {
	j := jobPool.Get().(*job)
	j.text = text
	jobs <- j
	<-j.done
	jobPool.Put(j)
}
