package rpc

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"

	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

// BenchmarkFloor is BenchmarkUnary without gRPC and HTTP/2: the same messages between as many callers and one server over one
// connection, each after eight bytes with its length and the number of its caller. There are no header lists, windows, frames,
// deadlines or cancellation, and the server calls the handler where it reads. From floorRaw bytes on there is no protobuf
// either: the payload is sent without a copy and received in the same buffer each time; as peer=floor-copied each side copies it to
// new memory, as Unmarshal does. The figures bound what a ratio of a gRPC runtime to another can be. Tarn's and grpc-go's calls are
// measured beside them, since calls a second depend on what the process has done before as well, and below floorRaw bytes their
// messages on open streams (peer=tarn-stream, peer=grpc-stream).
func BenchmarkFloor(b *testing.B) {
	for _, size := range sizes {
		for _, n := range callers {
			for _, c := range besideFloor(size) {
				b.Run(fmt.Sprintf("tls=off/size=%d/callers=%d/peer=%s", size, n, c.name), func(b *testing.B) {
					drive(b, start(b, c.peer, security{name: "off"}), n, size, c.open)
				})
			}
		}
	}
}

// contestant is a peer and how a caller of it is made.
type contestant struct {
	peer
	open func(context.Context, client) (caller, error)
}

// besideFloor are the contestants of BenchmarkFloor for messages of size bytes.
func besideFloor(size int) []contestant {
	floor := func(_ context.Context, c client) (caller, error) { return c.(*floorClient).caller(size), nil }
	list := []contestant{{floorPeer(reused), floor}}
	if size >= floorRaw { // below, protobuf copies
		list = append(list, contestant{floorPeer(copied), floor})
	}
	for _, p := range []peer{tarnPeer(), grpcPeer("grpc", nil, nil)} {
		list = append(list, contestant{p, unary})
		if size < floorRaw {
			p.name += "-stream"
			list = append(list, contestant{p, stream})
		}
	}
	return list
}

// TestFloor makes calls of both kinds.
func TestFloor(t *testing.T) {
	for _, m := range []floorMessages{reused, copied} {
		c := start(t, floorPeer(m), security{name: "off"})
		for _, size := range []int{1, 100, 100_000} {
			if err := once(t.Context(), c.unary, request(size), size); err != nil {
				t.Errorf("%v, %d bytes: %v", m, size, err)
			}
		}
	}
}

// floorMessages is where a large message is received.
type floorMessages uint8

const (
	reused floorMessages = iota // in the buffer of the last one
	copied                      // there, and then copied to new memory
)

func (m floorMessages) String() string { return [...]string{reused: "reused", copied: "copied"}[m] }

// take returns a message that was received in p.
func (m floorMessages) take(p []byte) []byte {
	if m == copied {
		return append([]byte(nil), p...)
	}
	return p
}

func floorPeer(m floorMessages) peer {
	return peer{
		name:  [...]string{reused: "floor", copied: "floor-copied"}[m],
		serve: func(tb testing.TB, l net.Listener, _ security) { serveFloor(tb, l, m) },
		client: func(tb testing.TB, addr string, _ security) client {
			return dialFloor(tb, addr, m)
		},
	}
}

const (
	floorPrefix = 8        // length and caller, 32 bits each
	floorRaw    = 16 << 10 // bytes
	floorBuffer = 64 << 10 // bytes
)

// floorLink sends for many goroutines. What is queued while one of them sends leaves with its next system call.
type floorLink struct {
	conn net.Conn

	mu      sync.Mutex
	queued  []byte      // short messages
	large   net.Buffers // others, with their prefixes
	sending bool
}

// send queues a message, which must not change afterwards, and sends what is queued if no other goroutine is about to.
func (l *floorLink) send(id uint32, message []byte) {
	var prefix [floorPrefix]byte
	binary.BigEndian.PutUint32(prefix[:], uint32(len(message)))
	binary.BigEndian.PutUint32(prefix[4:], id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(message) < floorRaw {
		l.queued = append(append(l.queued, prefix[:]...), message...)
	} else {
		l.large = append(l.large, append([]byte(nil), prefix[:]...), message)
	}
	if l.sending {
		return
	}
	l.sending = true
	var spare []byte
	for len(l.queued)+len(l.large) > 0 {
		l.mu.Unlock()
		runtime.Gosched() // others may queue, too
		l.mu.Lock()
		queued, large := l.queued, l.large
		l.queued, l.large = spare, nil
		l.mu.Unlock()
		l.conn.Write(queued) // the reader of the connection gets the error
		large.WriteTo(l.conn)
		l.mu.Lock()
		spare = queued[:0]
	}
	l.sending = false
}

// floorReader reads the messages of a connection.
type floorReader struct {
	in  *bufio.Reader
	buf []byte // of the last message
}

// next returns the next message, which is valid until the next call, and whose it is.
func (r *floorReader) next(where func(id uint32, n int) []byte) (id uint32, message []byte, err error) {
	p, err := r.in.Peek(floorPrefix)
	if err != nil {
		return 0, nil, err
	}
	n, id := int(binary.BigEndian.Uint32(p)), binary.BigEndian.Uint32(p[4:])
	r.in.Discard(floorPrefix) // it is buffered
	message = where(id, n)
	_, err = io.ReadFull(r.in, message)
	return id, message, err
}

// own has a message read to r's buffer.
func (r *floorReader) own(_ uint32, n int) []byte {
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	return r.buf[:n]
}

func serveFloor(tb testing.TB, l net.Listener, m floorMessages) {
	tb.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		tb.Cleanup(func() { conn.Close() })
		r := floorReader{in: bufio.NewReaderSize(conn, floorBuffer)}
		s := newService()
		out := floorLink{conn: conn}
		var gathered []byte
		for {
			if r.in.Buffered() == 0 && len(gathered) > 0 {
				conn.Write(gathered) // the next read returns the error
				gathered = gathered[:0]
			}
			id, message, err := r.next(r.own)
			if err != nil {
				return
			}
			if len(message) >= floorRaw {
				out.send(id, s.body[:len(m.take(message))])
				continue
			}
			if gathered, err = answerFloor(s, gathered, id, message); err != nil {
				return
			}
		}
	}()
}

// answerFloor appends the answer to a short message.
func answerFloor(s *service, b []byte, id uint32, message []byte) ([]byte, error) {
	req := new(pb.SimpleRequest)
	if err := proto.Unmarshal(message, req); err != nil {
		return b, err
	}
	resp, err := s.answer(req)
	if err != nil {
		return b, err
	}
	at := len(b)
	b = binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 0), id)
	b, err = proto.MarshalOptions{}.MarshalAppend(b, resp)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-floorPrefix))
	return b, err
}

// floorClient is one connection.
type floorClient struct {
	floorLink
	messages floorMessages

	mu      sync.Mutex
	callers []*floorCaller
}

// floorCaller is one caller. Its channel receives the length of a response, or is closed at the connection's end.
type floorCaller struct {
	buf []byte
	got chan int
}

func dialFloor(tb testing.TB, addr string, m floorMessages) client {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	c := &floorClient{floorLink: floorLink{conn: conn}, messages: m}
	go c.read()
	return c
}

func (c *floorClient) caller(size int) caller {
	me := &floorCaller{buf: make([]byte, size+64), got: make(chan int, 1)}
	c.mu.Lock()
	id := uint32(len(c.callers))
	c.callers = append(c.callers, me)
	c.mu.Unlock()
	return func(_ context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
		if size >= floorRaw {
			c.send(id, req.Payload.Body)
		} else {
			p, err := proto.Marshal(req)
			if err != nil {
				return nil, err
			}
			c.send(id, p)
		}
		n, ok := <-me.got
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		if size >= floorRaw {
			return &pb.SimpleResponse{Payload: &pb.Payload{Body: c.messages.take(me.buf[:n])}}, nil
		}
		resp := new(pb.SimpleResponse)
		return resp, proto.Unmarshal(me.buf[:n], resp)
	}
}

// read hands the responses to their callers.
func (c *floorClient) read() {
	r := floorReader{in: bufio.NewReaderSize(c.conn, floorBuffer)}
	for {
		var to *floorCaller
		_, message, err := r.next(func(id uint32, n int) []byte {
			c.mu.Lock()
			to = c.callers[id]
			c.mu.Unlock()
			return to.buf[:n]
		})
		if err != nil {
			break
		}
		to.got <- len(message)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, to := range c.callers {
		close(to.got)
	}
}

func (c *floorClient) unary(ctx context.Context, req *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return c.caller(len(req.Payload.GetBody()))(ctx, req)
}

func (c *floorClient) stream(context.Context) (func(*pb.SimpleRequest) (*pb.SimpleResponse, error), error) {
	return nil, fmt.Errorf("the floor has no streams")
}
