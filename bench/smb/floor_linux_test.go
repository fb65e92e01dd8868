package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

var le = binary.LittleEndian

// BenchmarkFloor measures a client without work of its own: it sends requests that were encoded beforehand, in the clear, and
// has the kernel discard the replies. The remaining time is the server's and the kernel's. It shows which share of a call is not the
// client's, but is no strict lower bound: when the client's threads wake, and on which processor, decides how the server's work
// overlaps with the kernel's, so that a client which does more may take a few percent less.
//
// Where a case says reply=received, the replies are not discarded but received into one buffer, the least that a client does that
// wants the data.
func BenchmarkFloor(b *testing.B) {
	srv := rigtest.Start(b, rig.Config{})
	fill(b, srv)
	c := idleClientOf(b, srv)
	b.Run("op=create-write-4K", func(b *testing.B) {
		c.b = b
		for b.Loop() {
			c.storeSmall()
		}
	})
	for _, depth := range []int{1, 8} {
		b.Run(fmt.Sprintf("op=read/size=1024K/depth=%d", depth), func(b *testing.B) { c.pipelined(b, c.read, depth) })
		b.Run(fmt.Sprintf("op=write/size=1024K/depth=%d", depth), func(b *testing.B) { c.pipelined(b, c.write, depth) })
	}
	c.received = make([]byte, 1<<20)
	b.Run("op=read/size=1024K/depth=8/reply=received", func(b *testing.B) { c.pipelined(b, c.read, 8) })
}

// idleClient has the requests of another client and its connection.
type idleClient struct {
	b           *testing.B
	fd          int
	mid         uint64    // the next MessageId
	small       [3][]byte // CREATE, WRITE and CLOSE of a new file
	read, write []byte    // of 1 MiB of an open file
	off         uint64
	reply       [160]byte // the beginning of the last reply
	received    []byte    // where the rest of long replies is received; nil: the kernel discards it
}

// Places in a frame: 4 bytes of length, and the header of 64 bytes, are in front of the body.
const (
	atStatus    = 4 + 8
	atCharge    = 4 + 6
	atCommand   = 4 + 12
	atCredits   = 4 + 14
	atMessageID = 4 + 24
	body        = 4 + 64
)

// idleClientOf has package smb log in, open and use files, and takes over its connection.
func idleClientOf(b *testing.B, srv *rig.Server) *idleClient {
	b.Helper()
	nc, err := net.Dial("tcp", srv.Addr)
	must(b, err)
	rec := &recorder{Conn: nc, stopped: make(chan struct{})}
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, Host: "bench", NoReconnect: true}
	session, err := d.NewSession(b.Context(), rec)
	must(b, err)
	share, err := session.Mount(b.Context(), srv.Share)
	must(b, err)
	share = share.WithContext(context.Background())
	f, err := share.OpenFile("file", os.O_RDWR, 0)
	must(b, err)
	_, err = f.ReadAt(make([]byte, 8<<20), 0) // the server grants credits
	must(b, err)
	c := &idleClient{}
	rec.take()
	g, err := share.Create("new")
	must(b, store(g, err, make([]byte, smallBytes)))
	requests := rec.take()
	c.small = [3][]byte(requests[len(requests)-3:])
	_, err = f.ReadAt(make([]byte, 4<<10), 0)
	must(b, err)
	requests = rec.take()
	last := requests[len(requests)-1]
	c.mid = le.Uint64(last[atMessageID:]) + uint64(le.Uint16(last[atCharge:]))

	c.read = moving(last, 1<<20)
	c.write = moving(append(c.small[1][:body+48:body+48], make([]byte, 1<<20)...), 1<<20)
	copy(c.write[body+16:], last[body+16:][:16]) // the file id
	nc.SetReadDeadline(time.Unix(1, 0))
	<-rec.stopped
	file, err := nc.(*net.TCPConn).File()
	must(b, err)
	b.Cleanup(func() { file.Close(); nc.Close() })
	c.fd = int(file.Fd())
	must(b, syscall.SetNonblock(c.fd, false))
	return c
}

// moving is a READ or a WRITE changed to move n bytes.
func moving(frame []byte, n int) []byte {
	frame = slices.Clone(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	le.PutUint16(frame[atCharge:], uint16(n>>16))
	le.PutUint16(frame[atCredits:], uint16(n>>16))
	le.PutUint32(frame[body+4:], uint32(n))
	return frame
}

// storeSmall makes a file, writes to it and closes it.
func (c *idleClient) storeSmall() {
	for i, frame := range c.small {
		c.send(frame)
		c.receive()
		if i == 0 {
			id := c.reply[body+64:][:16]
			copy(c.small[1][body+16:], id)
			copy(c.small[2][body+8:], id)
		}
	}
}

// pipelined keeps depth requests in flight.
func (c *idleClient) pipelined(b *testing.B, frame []byte, depth int) {
	c.b = b
	b.SetBytes(1 << 20)
	room, sent := make(chan struct{}, depth), make(chan struct{})
	go func() { // a separate goroutine, because send blocks while the server does not read
		defer close(sent)
		for range b.N {
			room <- struct{}{}
			le.PutUint64(frame[body+8:], c.off)
			c.off = (c.off + 1<<20) % fileBytes
			c.send(frame)
		}
	}()
	for range b.N {
		c.receive()
		<-room
	}
	<-sent
}

// send sends a request under the next MessageId.
func (c *idleClient) send(frame []byte) {
	le.PutUint64(frame[atMessageID:], c.mid)
	c.mid += uint64(le.Uint16(frame[atCharge:]))
	c.sendFrame(frame)
}

// sendFrame sends a frame as it is.
func (c *idleClient) sendFrame(frame []byte) {
	for len(frame) > 0 {
		n, err := syscall.Write(c.fd, frame)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			c.b.Error(err)
			return
		}
		frame = frame[n:]
	}
}

// receive reads the beginning of a reply that is not an interim one, and discards the rest.
func (c *idleClient) receive() {
	for {
		c.recv(c.reply[:4])
		n := int(binary.BigEndian.Uint32(c.reply[:]))
		k := min(n, len(c.reply)-4)
		c.recv(c.reply[4:][:k])
		c.discard(n - k)
		switch status := le.Uint32(c.reply[atStatus:]); status {
		case uint32(proto.StatusPending):
		case 0:
			return
		default:
			c.b.Fatalf("command %d: status %#x", c.reply[atCommand], status)
		}
	}
}

// recv fills b.
func (c *idleClient) recv(b []byte) {
	for len(b) > 0 {
		n, err := syscall.Read(c.fd, b)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			c.b.Fatal("receiving: ", n, err)
		}
		b = b[n:]
	}
}

// lowWater is how many bytes of a long reply wake the reader, as in package smb.
const lowWater = 1 << 20

// discard receives n bytes into c.received, or has the kernel discard them (recv(2), MSG_TRUNC).
func (c *idleClient) discard(n int) {
	if n >= lowWater {
		defer c.setLowWater(1)
	}
	for long := n >= lowWater; n > 0; {
		if long {
			// Awaited before recv(2), which would take what is there and then wait for as much again.
			c.setLowWater(min(n, lowWater))
			c.awaitInput()
		}
		got, err := c.discardSome(n)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || got == 0 {
			c.b.Fatal("discarding: ", got, err)
		}
		n -= got
	}
}

func (c *idleClient) discardSome(n int) (int, error) {
	if c.received != nil {
		return syscall.Read(c.fd, c.received[len(c.received)-n:])
	}
	got, _, err := syscall.Syscall6(syscall.SYS_RECVFROM, uintptr(c.fd), 0, uintptr(n), syscall.MSG_TRUNC, 0, 0)
	if err != 0 {
		return 0, err
	}
	return int(got), nil
}

// awaitInput waits until as many bytes as the low-water mark says can be read.
func (c *idleClient) awaitInput() {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, -1)
		if err == nil {
			return
		}
		if err != unix.EINTR {
			c.b.Fatal(err)
		}
	}
}

func (c *idleClient) setLowWater(n int) {
	if err := syscall.SetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n); err != nil {
		c.b.Fatal(err)
	}
}

// recorder keeps what is written, and does not close.
type recorder struct {
	net.Conn
	mu      sync.Mutex
	written []byte
	stopped chan struct{} // closed when reading has failed
	once    sync.Once
	holding int           // frames to keep without sending them, of one Write each; zero: everything is sent
	held    int           // frames kept so
	begin   int           // frames of the first call
	first   chan struct{} // closed when those are held
	full    chan struct{} // closed when holding frames are held
}

// hold has the recorder keep what is written from now on, n frames and whatever follows, instead of sending it. The first call
// writes begin of them.
func (r *recorder) hold(begin, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written, r.begin, r.holding = nil, begin, n
	r.first, r.full = make(chan struct{}), make(chan struct{})
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.written = append(r.written, b...)
	if r.holding > 0 {
		defer r.mu.Unlock()
		if r.held++; r.held == r.begin {
			close(r.first)
		}
		if r.held == r.holding {
			close(r.full)
		}
		return len(b), nil
	}
	r.mu.Unlock()
	return r.Conn.Write(b)
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	if err != nil {
		r.once.Do(func() { close(r.stopped) })
	}
	return n, err
}

func (r *recorder) Close() error { return nil }

// take returns the frames written since the last call.
func (r *recorder) take() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := frames(r.written)
	r.written = nil
	return all
}

// frames returns copies of the frames that b consists of.
func frames(b []byte) (all [][]byte) {
	for len(b) > 0 {
		n := 4 + int(binary.BigEndian.Uint32(b))
		all = append(all, slices.Clone(b[:n]))
		b = b[n:]
	}
	return all
}
