// Package floor is a client of gRPC servers that does the least that any client must: it puts frames around a
// request, writes, reads, and cuts the response into messages. It has no names, balancing, deadlines, status, compression,
// limits, flow control of what it sends (at most 64 KiB may be under way) or reconnecting.
// Benchmarks use it to find out how much of a program's time a better transport could save.
package floor

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
)

// prefixLen is the length of a gRPC message's prefix.
const prefixLen = 5

// Types and flags of frames, and settings (RFC 9113, sections 6 and 6.5.2).
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	frameWindowUpdate = 8

	flagEndStream  = 1
	flagAck        = 1
	flagEndHeaders = 4

	settingWindow = 4
	maxWindow     = 1<<31 - 1
	firstWindow   = 65535 // of a connection
	frameHeader   = 9
	maxFrame      = 16 << 10
)

// Conn is a connection to a server. Its methods are safe for concurrent use.
type Conn struct {
	nc    net.Conn
	calls sync.Pool

	mu        sync.Mutex
	err       error
	out       []byte // frames to be written
	spare     []byte // the buffer that was written last
	writing   bool   // a goroutine writes
	nextID    uint32
	streams   map[uint32]*Call
	table     map[field]int // how many header fields had been indexed when this one was (RFC 7541, section 2.3.2)
	authority string
}

// Dial connects to a server without TLS.
func Dial(addr string) (*Conn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Conn{nc: nc, nextID: 1, streams: map[uint32]*Call{}, table: map[field]int{}, authority: addr}
	b := appendFrame([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 6, frameSettings, 0, 0)
	b = binary.BigEndian.AppendUint32(append(b, 0, settingWindow), maxWindow)
	b = appendFrame(b, 4, frameWindowUpdate, 0, 0)
	b = binary.BigEndian.AppendUint32(b, maxWindow-firstWindow)
	if _, err := nc.Write(b); err != nil {
		nc.Close()
		return nil, err
	}
	go c.read()
	return c, nil
}

// Close ends the connection and its calls.
func (c *Conn) Close() error { return c.nc.Close() }

func appendFrame(b []byte, length int, kind, flags byte, stream uint32) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), kind, flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

// Call is one call. It is used by one goroutine.
type Call struct {
	conn *Conn
	id   uint32

	mu    sync.Mutex
	wake  sync.Cond
	in    []byte // received, without the frames
	taken int    // of in
	ended bool
}

// field is a field of a request's header.
type field struct{ name, value string }

// Open sends a call's only request and its metadata, which it borrows. A method is "/service/method". The metadata has names in
// lower case; all calls of a connection together may have 60 different fields, of at most 126 bytes.
func (c *Conn) Open(method string, request []byte, metadata map[string][]string) (*Call, error) {
	s, _ := c.calls.Get().(*Call)
	if s == nil {
		s = &Call{conn: c}
		s.wake.L = &s.mu
	}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	s.id = c.nextID
	c.nextID += 2
	c.streams[s.id] = s
	head := len(c.out)
	b := appendFrame(c.out, 0, frameHeaders, flagEndHeaders, s.id)
	b = append(b, 0x83, 0x86) // :method POST, :scheme http (RFC 7541, appendix A)
	for _, f := range [...]field{{":path", method}, {":authority", c.authority}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		b = c.appendField(b, f)
	}
	for name, values := range metadata {
		for _, v := range values {
			b = c.appendField(b, field{name, v})
		}
	}
	n := len(b) - head - frameHeader
	b[head], b[head+1], b[head+2] = byte(n>>16), byte(n>>8), byte(n)
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request)))
	for more := true; more; prefix = nil {
		n := min(len(request), maxFrame-len(prefix))
		more = n < len(request)
		flags := byte(flagEndStream)
		if more {
			flags = 0
		}
		b = append(appendFrame(b, len(prefix)+n, frameData, flags, s.id), prefix...)
		b = append(b, request[:n]...)
		request = request[n:]
	}
	c.out = b
	c.flush()
	return s, nil
}

// appendField appends a field: an index once it has been sent (RFC 7541, section 6). mu is held.
func (c *Conn) appendField(b []byte, f field) []byte {
	if before, ok := c.table[f]; ok {
		return append(b, 0x80|byte(62+len(c.table)-1-before))
	}
	c.table[f] = len(c.table)
	b = append(append(b, 0x40, byte(len(f.name))), f.name...)
	return append(append(b, byte(len(f.value))), f.value...)
}

// flush writes what is queued, unless another goroutine does. mu is held, and released.
func (c *Conn) flush() {
	if c.writing {
		c.mu.Unlock()
		return
	}
	c.writing = true
	c.mu.Unlock()
	runtime.Gosched() // other callers may add to it
	c.mu.Lock()
	for len(c.out) > 0 && c.err == nil {
		b := c.out
		c.out = c.spare[:0]
		c.mu.Unlock()
		_, err := c.nc.Write(b)
		c.mu.Lock()
		c.spare = b
		c.failLocked(err)
	}
	c.writing = false
	c.mu.Unlock()
}

// failLocked ends the connection and all calls, if err is not nil. mu is held.
func (c *Conn) failLocked(err error) {
	if err == nil || c.err != nil {
		return
	}
	c.err = err
	c.nc.Close()
	for _, s := range c.streams {
		s.received(nil, flagEndStream)
	}
	clear(c.streams)
}

// read receives frames until the connection ends.
func (c *Conn) read() {
	err := c.receive(bufio.NewReaderSize(c.nc, 64<<10))
	c.mu.Lock()
	c.failLocked(err)
	c.mu.Unlock()
}

func (c *Conn) receive(r *bufio.Reader) error {
	unreturned := 0 // bytes of DATA since the last WINDOW_UPDATE
	for {
		h, err := r.Peek(frameHeader)
		if err != nil {
			return err
		}
		length, kind, flags := int(h[0])<<16|int(h[1])<<8|int(h[2]), h[3], h[4]
		id := binary.BigEndian.Uint32(h[5:])
		if _, err := r.Discard(frameHeader); err != nil {
			return err
		}
		p, err := r.Peek(length) // a frame of at most 16 KiB
		if err != nil {
			return err
		}
		switch {
		case kind == frameData || kind == frameHeaders || kind == frameReset:
			if kind == frameReset {
				flags = flagEndStream
			}
			var data []byte
			if kind == frameData {
				data = p
				unreturned += length
			}
			c.deliver(id, data, flags&flagEndStream)
		case kind == frameGoAway:
			return errors.New("floor: the server closes the connection")
		case (kind == frameSettings || kind == framePing) && flags&flagAck == 0:
			c.mu.Lock()
			if kind == frameSettings {
				c.out = appendFrame(c.out, 0, kind, flagAck, 0)
			} else {
				c.out = append(appendFrame(c.out, length, kind, flagAck, 0), p...)
			}
			c.flush()
		}
		if _, err := r.Discard(length); err != nil {
			return err
		}
		if unreturned > maxWindow/2 {
			c.mu.Lock()
			c.out = appendFrame(c.out, 4, frameWindowUpdate, 0, 0)
			c.out = binary.BigEndian.AppendUint32(c.out, uint32(unreturned))
			unreturned = 0
			c.flush()
		}
	}
}

// deliver passes a copy of data to its call.
func (c *Conn) deliver(id uint32, data []byte, end byte) {
	c.mu.Lock()
	s := c.streams[id]
	if end != 0 {
		delete(c.streams, id)
	}
	c.mu.Unlock()
	if s != nil && (end != 0 || len(data) > 0) {
		s.received(data, end)
	}
}

func (s *Call) received(data []byte, end byte) {
	s.mu.Lock()
	s.in = append(s.in, data...)
	s.ended = s.ended || end != 0
	s.wake.Signal()
	s.mu.Unlock()
}

// Next waits for a message of the response and passes it to use, which borrows it. At the response's end it
// returns io.EOF, and the call can no longer be used.
func (s *Call) Next(use func([]byte) error) error {
	s.mu.Lock()
	for {
		b := s.in[s.taken:]
		if len(b) >= prefixLen {
			if n := prefixLen + int(binary.BigEndian.Uint32(b[1:])); len(b) >= n {
				s.taken += n
				s.mu.Unlock() // received appends behind what it has passed on
				return use(b[prefixLen:n])
			}
		}
		if s.ended {
			break
		}
		s.wake.Wait()
	}
	s.in, s.taken, s.ended = s.in[:0], 0, false
	s.mu.Unlock()
	s.conn.calls.Put(s)
	return io.EOF
}
