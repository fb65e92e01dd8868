package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"

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
}

// keeping is what a floorServer does with a request.
type keeping uint8

const (
	dropRequests keeping = iota
	copyRequests         // to memory that is garbage afterwards, as protobuf's Unmarshal does
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

// floors are the two kinds of floorServer.
func floors(self, _ string) []contestant {
	return []contestant{{"floor", []string{self, "serve", "floor"}}, {"floor-kept", []string{self, "serve", "floor-kept"}}}
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
			lengths: make(map[uint32]int), lastLen: -1, keeping: k}
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
		if _, err := s.in.Discard(n); err != nil {
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

// response makes a response of stream 0: its header, n bytes of DATA that are a framed SimpleResponse, and grpc-status 0.
func response(n int) []byte {
	message := make([]byte, n)
	copy(message, request(payloadOf(n)))
	message[5] = 1<<3 | 2 // SimpleResponse has its payload in field 1, SimpleRequest in field 3
	header := append([]byte{0x88, 0x0f, 0x10, 16}, "application/grpc"...)
	trailer := append(append([]byte{0x00, 11}, "grpc-status"...), 1, '0')
	p := appendFloorFrame(nil, typeHeaders, flagHeaders, 0, header)
	for len(message) > 0 {
		m := min(len(message), floorFrame)
		p = appendFloorFrame(p, typeData, 0, 0, message[:m])
		message = message[m:]
	}
	return appendFloorFrame(p, typeHeaders, flagHeaders|flagEnd, 0, trailer)
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
	n := len(p)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), typ, flags)
	return append(binary.BigEndian.AppendUint32(b, id), p...)
}

func (s *floorServer) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	_, err := s.conn.Write(s.out)
	s.out = s.out[:0]
	return err
}
