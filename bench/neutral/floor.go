package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"slices"

	"github.com/tarn-go/tarn/internal/child"
)

// floorServer answers every request with a response of the same length that it has made before: it reads frames and
// sends bytes, and does nothing else that a gRPC server does (header lists, windows of the peer, messages, handlers, more than
// one goroutine a connection). No server in Go takes less processor time. The peer's windows must cover its responses.
type floorServer struct {
	conn     net.Conn
	in       *bufio.Reader
	out      []byte // responses that have not been sent
	payload  []byte // of a frame that is not DATA
	received int    // bytes of DATA whose window has not been given back
	lengths  map[uint32]int
	last     []byte // the response that was sent last, for requests as long
	lastLen  int
	keeping  keeping
	kept     []byte // the last request that was copied

	// With returnRequests alone:
	open  map[uint32][]byte // requests that are being received
	spare [][]byte          // memory of earlier ones
	vec   net.Buffers       // of the response that was sent last
	heads []byte            // its frame headers
}

// keeping is what a floorServer does with a request.
type keeping uint8

const (
	dropRequests keeping = iota
	copyRequests         // to memory that is garbage afterwards, as protobuf's Unmarshal does
	// returnRequests receives each request in memory of its own, which is used again, and sends the response from there, as a server
	// must whose handler gets the request and returns it.
	returnRequests
)

const (
	floorHeader   = 9
	floorFrame    = 16 << 10 // the longest frame that either side sends, in bytes
	floorWindow   = 1<<31 - 1
	floorGiveBack = 64 << 20
)

// The frame types and the flag that a floorServer handles.
const (
	typeData     = 0
	typeHeaders  = 1
	typeSettings = 4
	typePing     = 6
	typeWindow   = 8
	flagEnd      = 1 // END_STREAM, ACK
	flagHeaders  = 4 // END_HEADERS
)

// floors are the kinds of floorServer.
func floors(self, _ string) []contestant {
	var list []contestant
	for _, name := range []string{"floor", "floor-kept", "floor-echo"} {
		list = append(list, contestant{name, []string{self, "serve", name}})
	}
	return list
}

// serveFloor runs a floorServer on each connection until standard input ends.
func serveFloor(k keeping) error {
	closed := make(chan struct{})
	l, err := child.Listen(func() { close(closed) })
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			<-closed
			return nil
		}
		s := &floorServer{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), payload: make([]byte, floorFrame),
			lengths: make(map[uint32]int), open: make(map[uint32][]byte), lastLen: -1, keeping: k}
		go s.run()
	}
}

func (s *floorServer) run() {
	defer s.conn.Close()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := s.in.Discard(len(preface)); err != nil {
		return
	}
	s.frame(typeSettings, 0, 0, binary.BigEndian.AppendUint32([]byte{0, 4}, floorWindow))
	s.frame(typeWindow, 0, 0, binary.BigEndian.AppendUint32(nil, floorWindow-65535))
	for s.next() == nil {
	}
}

// next handles one frame. Before it waits for more input it sends the gathered responses.
func (s *floorServer) next() error {
	if s.in.Buffered() < floorHeader {
		if err := s.flush(); err != nil {
			return err
		}
	}
	h, err := s.in.Peek(floorHeader)
	if err != nil {
		return err
	}
	n, typ, flags, id := int(h[0])<<16|int(h[1])<<8|int(h[2]), h[3], h[4], binary.BigEndian.Uint32(h[5:])
	if _, err := s.in.Discard(floorHeader); err != nil {
		return err
	}
	if s.in.Buffered() < n {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if typ == typeData {
		if err := s.content(id, n); err != nil {
			return err
		}
		s.data(id, n, flags)
		return nil
	}
	p := s.payload[:min(n, floorFrame)]
	if _, err := io.ReadFull(s.in, p); err != nil {
		return err
	}
	switch typ {
	case typeSettings:
		if flags&flagEnd == 0 {
			s.frame(typeSettings, flagEnd, 0, nil)
		}
	case typePing:
		if flags&flagEnd == 0 {
			s.frame(typePing, flagEnd, 0, p)
		}
	}
	return nil
}

// content reads n bytes of DATA to where they are to be.
func (s *floorServer) content(id uint32, n int) error {
	if s.keeping != returnRequests {
		_, err := s.in.Discard(n)
		return err
	}
	p, ok := s.open[id]
	if last := len(s.spare) - 1; !ok && last >= 0 {
		p, s.spare = s.spare[last][:0], s.spare[:last]
	}
	p = slices.Grow(p, n)
	at := len(p)
	p = p[:at+n]
	s.open[id] = p
	_, err := io.ReadFull(s.in, p[at:])
	return err
}

// data takes n bytes of DATA and answers when they end the request.
func (s *floorServer) data(id uint32, n int, flags byte) {
	if s.received += n; s.received >= floorGiveBack {
		s.frame(typeWindow, 0, 0, binary.BigEndian.AppendUint32(nil, uint32(s.received)))
		s.received = 0
	}
	if flags&flagEnd == 0 {
		s.lengths[id] += n
		return
	}
	total := n
	if before, ok := s.lengths[id]; ok {
		total += before
		delete(s.lengths, id)
	}
	s.answer(id, total)
}

// answer queues the response to a request of n bytes of DATA.
func (s *floorServer) answer(id uint32, n int) {
	if s.keeping == returnRequests {
		s.giveBack(id)
		return
	}
	if n != s.lastLen {
		s.last, s.lastLen = response(n), n
	}
	if s.keeping == copyRequests {
		s.kept = append([]byte(nil), s.last[:n]...)
	}
	for at := 0; at < len(s.last); {
		h := s.last[at:]
		binary.BigEndian.PutUint32(h[5:], id)
		at += floorHeader + int(h[0])<<16 + int(h[1])<<8 + int(h[2])
	}
	if len(s.last) >= floorFrame {
		// Long responses are sent without being copied to the output buffer.
		if s.flush() == nil {
			s.conn.Write(s.last) // the next read of the connection returns the error
		}
		return
	}
	s.out = append(s.out, s.last...)
}

// giveBack sends the content of the stream's request as the response.
func (s *floorServer) giveBack(id uint32) {
	p := s.open[id]
	delete(s.open, id)
	p[5] = 1<<3 | 2 // as in response
	s.frame(typeHeaders, flagHeaders, id, responseHeader)
	if len(p) < floorFrame {
		s.frame(typeData, 0, id, p)
		s.frame(typeHeaders, flagHeaders|flagEnd, id, responseTrailer)
	} else if s.flush() == nil {
		frames := (len(p) + floorFrame - 1) / floorFrame
		s.heads = slices.Grow(s.heads[:0], (frames+1)*floorHeader+len(responseTrailer))
		vec := s.vec[:0]
		for left := p; len(left) > 0; {
			m := min(len(left), floorFrame)
			at := len(s.heads)
			s.heads = appendFloorHeader(s.heads, m, typeData, 0, id)
			vec = append(vec, s.heads[at:], left[:m])
			left = left[m:]
		}
		at := len(s.heads)
		s.heads = appendFloorFrame(s.heads, typeHeaders, flagHeaders|flagEnd, id, responseTrailer)
		s.vec = append(vec, s.heads[at:])
		rest := s.vec        // WriteTo consumes it
		rest.WriteTo(s.conn) // the next read of the connection returns the error
	}
	s.spare = append(s.spare, p)
}

// The header list and the trailers of a response.
var (
	responseHeader  = append([]byte{0x88, 0x0f, 0x10, 16}, "application/grpc"...)
	responseTrailer = append(append([]byte{0x00, 11}, "grpc-status"...), 1, '0')
)

// response makes a response of stream 0: its header, n bytes of DATA that are a framed SimpleResponse, and grpc-status 0.
func response(n int) []byte {
	message := make([]byte, n)
	copy(message, request(payloadOf(n)))
	message[5] = 1<<3 | 2 // SimpleResponse has its payload in field 1, SimpleRequest in field 3
	p := appendFloorFrame(nil, typeHeaders, flagHeaders, 0, responseHeader)
	for len(message) > 0 {
		m := min(len(message), floorFrame)
		p = appendFloorFrame(p, typeData, 0, 0, message[:m])
		message = message[m:]
	}
	return appendFloorFrame(p, typeHeaders, flagHeaders|flagEnd, 0, responseTrailer)
}

// payloadOf returns the length of the payload whose request is n bytes long, as far as there is one.
func payloadOf(n int) int {
	for size := n; size > 0; size-- {
		if len(request(size)) == n {
			return size
		}
	}
	return 0
}

func (s *floorServer) frame(typ, flags byte, id uint32, p []byte) {
	s.out = appendFloorFrame(s.out, typ, flags, id, p)
}

func appendFloorFrame(b []byte, typ, flags byte, id uint32, p []byte) []byte {
	return append(appendFloorHeader(b, len(p), typ, flags, id), p...)
}

// appendFloorHeader appends the header of a frame of n bytes.
func appendFloorHeader(b []byte, n int, typ, flags byte, id uint32) []byte {
	b = append(b, byte(n>>16), byte(n>>8), byte(n), typ, flags)
	return binary.BigEndian.AppendUint32(b, id)
}

func (s *floorServer) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	_, err := s.conn.Write(s.out)
	s.out = s.out[:0]
	return err
}
