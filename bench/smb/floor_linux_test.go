package bench

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

var le = binary.LittleEndian

// BenchmarkFloor makes a file, writes 4 KiB to it and closes it, with a client without work of its own: one thread sends requests that were
// encoded beforehand, in the clear, and looks at the status of each reply. The rest of the time is the server's and the kernel's.
func BenchmarkFloor(b *testing.B) {
	srv := rigtest.Start(b, rig.Config{})
	c := idleClientOf(b, srv)
	for _, op := range []struct {
		name   string
		frames [][]byte
	}{{"create-write-4K", c.empty}, {"create-new-4K", c.create}} {
		b.Run("mode=plain/op="+op.name+"/peer=floor", func(b *testing.B) {
			c.b = b
			for b.Loop() {
				if op.name == "create-new-4K" {
					os.Remove(filepath.Join(srv.Dir, "new"))
				}
				c.store(op.frames)
			}
		})
	}
}

// idleClient has the requests of another client and its connection.
type idleClient struct {
	b             *testing.B
	fd            int
	mid           uint64    // the next MessageId
	empty, create [][]byte  // CREATE, WRITE and CLOSE of a file: one that exists is emptied by the CREATE, or it is new
	reply         [160]byte // the last one
}

// Places in a frame: 4 bytes of length, and the header of 64 bytes, are in front of the body.
const (
	atStatus    = 4 + 8
	atCharge    = 4 + 6
	atCommand   = 4 + 12
	atCredits   = 4 + 14
	atMessageID = 4 + 24
	body        = 4 + 64

	atDisposition = body + 36 // of CREATE
)

// idleClientOf has package smb log in and make a file, and takes over its connection.
func idleClientOf(b *testing.B, srv *rig.Server) *idleClient {
	b.Helper()
	rec := record(b, srv.Addr)
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, Host: "bench", NoReconnect: true, AllowUnsigned: true}
	session, err := d.NewSession(b.Context(), rec)
	must(b, err)
	share, err := session.Mount(b.Context(), srv.Share)
	must(b, err)
	rec.take()
	f, err := share.WithContext(context.Background()).OpenFile("new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	must(b, store(f, err, make([]byte, smallBytes)))
	requests := rec.take()
	c := &idleClient{create: requests, empty: slices.Clone(requests)}
	c.empty[0] = slices.Clone(requests[0])
	le.PutUint32(c.empty[0][atDisposition:], uint32(proto.DispositionOverwriteIf))
	last := requests[len(requests)-1]
	c.mid = le.Uint64(last[atMessageID:]) + uint64(le.Uint16(last[atCharge:]))
	c.fd = rec.takeOver(b)
	return c
}

// store makes a file, writes to it and closes it.
func (c *idleClient) store(frames [][]byte) {
	for i, frame := range frames {
		le.PutUint64(frame[atMessageID:], c.mid)
		c.mid += uint64(le.Uint16(frame[atCharge:]))
		c.send(frame)
		c.receive()
		if i == 0 {
			id := c.reply[body+64:][:16]
			copy(frames[1][body+16:], id)
			copy(frames[2][body+8:], id)
		}
	}
}

func (c *idleClient) send(frame []byte) {
	for len(frame) > 0 {
		n, err := syscall.Write(c.fd, frame)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			c.b.Fatal(err)
		}
		frame = frame[n:]
	}
}

// receive receives a reply that is not an interim one.
func (c *idleClient) receive() {
	for {
		c.receiveAll(c.reply[:4])
		n := int(binary.BigEndian.Uint32(c.reply[:]))
		if n > len(c.reply)-4 {
			c.b.Fatalf("a reply of %d bytes", n)
		}
		c.receiveAll(c.reply[4:][:n])
		switch status := le.Uint32(c.reply[atStatus:]); status {
		case uint32(proto.StatusPending):
		case 0:
			return
		default:
			c.b.Fatalf("command %d: status %#x", c.reply[atCommand], status)
		}
	}
}

func (c *idleClient) receiveAll(b []byte) {
	if err := receiveAll(c.fd, b); err != nil {
		c.b.Fatal("receiving: ", err)
	}
}
