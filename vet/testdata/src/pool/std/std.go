// Package std has mistakes with sync.Pool.
package std

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

var (
	bytesPool   = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}
	slicePool   = sync.Pool{New: func() any { return make([]byte, 512) }}
	bufferPool  = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	requestPool = sync.Pool{New: func() any { return new(request) }}
)

type request struct {
	id   int
	body []byte
	next *request
}

func useAfterPut() int {
	buf := bufferPool.Get().(*bytes.Buffer)
	bufferPool.Put(buf)
	return buf.Len() // want `use after release: buf was given back by Pool.Put`
}

func fieldAfterPut() int {
	r := requestPool.Get().(*request)
	requestPool.Put(r)
	return r.id // want `use after release: r was given back`
}

func writeAfterPut() {
	r := requestPool.Get().(*request)
	requestPool.Put(r)
	r.id = 1 // want `use after release: r was given back`
}

func returnedBytes(w io.Reader) []byte {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	buf.Reset()
	io.Copy(buf, w)
	return buf.Bytes() // want `escape: bytes of buf are returned, but it was given back by Pool.Put`
}

func returnedSlice() []byte {
	b := slicePool.Get().([]byte)
	defer slicePool.Put(b)
	n := copy(b, "hello")
	return b[:n] // want `escape: b is returned`
}

func returnedThroughPointer() []byte {
	p := bytesPool.Get().(*[]byte)
	defer bytesPool.Put(p)
	b := append((*p)[:0], "hello"...)
	return b // want `escape: bytes of p are returned`
}

func twice(fail bool) error {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf) // want `double release: buf is given back by Pool.Put`
	if fail {
		bufferPool.Put(buf)
		return io.EOF
	}
	return nil
}

func twiceInARow(b []byte) {
	slicePool.Put(b)
	slicePool.Put(b) // want `double release: b was given back by Pool.Put`
}

func grownCopy() {
	p := bytesPool.Get().(*[]byte)
	b := append((*p)[:0], "hello"...)
	bytesPool.Put(p)
	bytesPool.Put(&b) // want `double release: p was given back`
}

func viewSurvives() {
	buf := bufferPool.Get().(*bytes.Buffer)
	buf.WriteString("x")
	view := buf.Bytes()
	bufferPool.Put(buf)
	os.Stdout.Write(view) // want `use after release: these are bytes of buf, which Pool.Put gave back`
}

func viewOfView() {
	buf := bufferPool.Get().(*bytes.Buffer)
	line, _, _ := bytes.Cut(buf.Bytes(), []byte("\n"))
	bufferPool.Put(buf)
	os.Stdout.Write(line) // want `use after release: these are bytes of buf`
}

func viewRead() string {
	buf := bufferPool.Get().(*bytes.Buffer)
	view := buf.Bytes()
	bufferPool.Put(buf)
	return string(view) // want `use after release: these are bytes of buf`
}

func printed() {
	r := requestPool.Get().(*request)
	requestPool.Put(r)
	fmt.Println("done", r) // want `use after release: r was given back`
}

func fieldView() {
	r := requestPool.Get().(*request)
	body := r.body
	requestPool.Put(r)
	os.Stdout.Write(body) // want `use after release: these are bytes of r`
}

type cache struct {
	pages map[string][]byte
	last  []byte
}

func (c *cache) storesView(r io.Reader) {
	buf := bufferPool.Get().(*bytes.Buffer)
	buf.ReadFrom(r)
	c.last = buf.Bytes() // want `escape: buf, or bytes of it, is stored in c.last here, and outlives its release by Pool.Put`
	bufferPool.Put(buf)
}

func (c *cache) storesInMap(key string, r io.Reader) {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	buf.ReadFrom(r)
	c.pages[key] = buf.Bytes() // want `escape: buf, or bytes of it, is stored in a map here`
}

func sends(c chan []byte) {
	buf := bufferPool.Get().(*bytes.Buffer)
	c <- buf.Bytes() // want `escape: buf, or bytes of it, is sent here`
	bufferPool.Put(buf)
}

func goroutine() {
	buf := bufferPool.Get().(*bytes.Buffer)
	go func() { // want `escape: buf is used by a goroutine that is started here`
		os.Stdout.Write(buf.Bytes())
	}()
	bufferPool.Put(buf)
}

// put does not keep large buffers.
func put(buf *bytes.Buffer) {
	if buf.Cap() > 1<<16 {
		return
	}
	buf.Reset()
	bufferPool.Put(buf)
}

func throughHelper() {
	buf := bufferPool.Get().(*bytes.Buffer)
	put(buf)
	buf.WriteString("x") // want `use after release: buf was given back by put`
}

func deferredLiteral() []byte {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer func() {
		buf.Reset()
		bufferPool.Put(buf)
	}()
	return buf.Bytes() // want `escape: bytes of buf are returned`
}

func inStruct() *request {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	return &request{body: buf.Bytes()} // want `escape: the result leads to buf`
}

func onOnePath(n int) int {
	r := requestPool.Get().(*request)
	if n > 3 {
		requestPool.Put(r)
	}
	n++
	return r.id // want `use after release: r was given back`
}

type conn struct{ buf *bytes.Buffer }

func (c *conn) close() { bufferPool.Put(c.buf) }

func field(c *conn) {
	c.close()
	c.buf.Reset() // want `use after release: c.buf was given back by conn.close`
}

func fieldTwice(c *conn) {
	c.close()
	c.close() // want `double release: c.buf was given back by conn.close`
}

func loop(rs []io.Reader) {
	buf := bufferPool.Get().(*bytes.Buffer)
	for _, r := range rs {
		buf.ReadFrom(r) // want `use after release: buf was given back`
		bufferPool.Put(buf)
	}
}

func kept(c *conn) {
	buf := bufferPool.Get().(*bytes.Buffer)
	c.buf = buf // want `escape: buf, or bytes of it, is stored in c.buf here, and outlives its release by Pool.Put`
	bufferPool.Put(buf)
}

func readerOfBytes() io.Reader {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	buf.WriteString("x")
	return bytes.NewReader(buf.Bytes()) // want `escape: the result leads to buf`
}

func readerOfBuffer() io.ReadCloser {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	return io.NopCloser(buf) // want `escape: the result leads to buf`
}

func lines() [][]byte {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	return bytes.Split(buf.Bytes(), []byte("\n")) // want `escape: the result leads to buf`
}

func wraps(b []byte) {
	wrapped := bytes.NewBuffer(b)
	bufferPool.Put(wrapped)
	wrapped.Reset() // want `use after release: wrapped was given back by Pool.Put`
}

func response(data []byte) (*http.Response, error) {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(buf)
	buf.Write(data)
	return http.ReadResponse(bufio.NewReader(buf), nil) // want `escape: the result leads to buf`
}

var full = make(chan struct{}, 4)

// putIfRoom discards buffers if there are enough.
func putIfRoom(buf *bytes.Buffer) {
	select {
	case full <- struct{}{}:
		bufferPool.Put(buf)
	default:
	}
}

func throughPutIfRoom() []byte {
	buf := bufferPool.Get().(*bytes.Buffer)
	defer putIfRoom(buf)
	return buf.Bytes() // want `escape: bytes of buf are returned`
}

func pointedToAgain() []byte {
	p := bytesPool.Get().(*[]byte)
	b := append((*p)[:0], "hello"...)
	*p = b
	bytesPool.Put(p)
	return b // want `escape: bytes of p are returned`
}

func sentInSelect(to chan []byte, quit chan struct{}) {
	b := bufferPool.Get().(*bytes.Buffer)
	defer bufferPool.Put(b)
	select {
	case to <- b.Bytes(): // want `escape: b, or bytes of it, is sent here`
	case <-quit:
	}
}
