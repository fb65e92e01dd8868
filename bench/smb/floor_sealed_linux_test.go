package bench

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// sealedBatch is how many calls of 1 MiB are encrypted at a time. A server grants credits for at least twice as many.
const sealedBatch = 128

// BenchmarkSealedFloor is BenchmarkFloor with encryption: the requests were encrypted beforehand, and the replies are not decrypted.
// depth=8 has eight requests of 1 MiB in flight. depth=1 is one call of 1 MiB after the other, each of two requests of 512 KiB that
// are sent together, as package smb does. Each batch has a connection of its own, which is not part of the time.
//
// Where a case says reply=decrypted, the replies are received and run through AES-GCM by as many goroutines as there are processors,
// the least that a client does that wants the data. (With a key of its own, since AES-GCM takes the same time with any.)
func BenchmarkSealedFloor(b *testing.B) {
	srv := rigtest.Start(b, rig.Config{Mode: rig.Encrypted})
	fill(b, srv)
	buf := make([]byte, 1<<20)
	buffers := make([][]byte, 8)
	for i := range buffers {
		buffers[i] = bytes.Repeat([]byte{1}, 1<<20+256)
	}
	for _, c := range []struct {
		name, op string
		requests int // for a call of 1 MiB
		replay   func(c *sealedClient)
	}{
		{"op=read/size=1024K/depth=1", "read", 2, (*sealedClient).replayPairs},
		{"op=read/size=1024K/depth=8", "read", 1, func(c *sealedClient) { c.replay(8) }},
		{"op=read/size=1024K/depth=8/reply=decrypted", "read", 1, func(c *sealedClient) { c.replayDecrypted(buffers) }},
		{"op=write/size=1024K/depth=1", "write", 2, (*sealedClient).replayPairs},
		{"op=write/size=1024K/depth=8", "write", 1, func(c *sealedClient) { c.replay(8) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(1 << 20)
			b.ResetTimer()
			for left := b.N; left > 0; left -= sealedBatch {
				b.StopTimer()
				client := &sealedClient{}
				client.prepare(b, srv, c.op, buf[:len(buf)/c.requests], c.requests*min(left, sealedBatch))
				b.StartTimer()
				c.replay(client)
				b.StopTimer()
				must(b, syscall.Close(client.fd))
			}
		})
	}
}

// sealedClient has encrypted requests and the connection that they are for.
type sealedClient struct {
	idleClient
	requests [][]byte
	shortest int // length of the shortest frame that is a final reply; interim ones are shorter
}

// prepare has package smb log in and make n requests for all of buf, which are kept instead of sent.
func (c *sealedClient) prepare(b *testing.B, srv *rig.Server, op string, buf []byte, n int) {
	c.b = b
	nc, err := net.Dial("tcp", srv.Addr)
	must(b, err)
	defer nc.Close()
	rec := &recorder{Conn: nc, stopped: make(chan struct{})}
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, Host: "bench", NoReconnect: true}
	session, err := d.NewSession(b.Context(), rec)
	must(b, err)
	share, err := session.Mount(b.Context(), srv.Share)
	must(b, err)
	f, err := share.WithContext(context.Background()).OpenFile("file", os.O_RDWR, 0)
	must(b, err)
	_, err = f.ReadAt(make([]byte, 8<<20), 0) // the server grants credits, and keeps its memory
	must(b, err)
	use := f.ReadAt
	c.shortest = 1 << 18
	if op == "write" {
		use, c.shortest = f.WriteAt, 130
	}
	requests, first := n, 1
	if len(buf) == 1<<20 {
		requests, first = n+1, 2 // nothing else is in flight during the first call, so that it is sent as two requests
	}
	rec.hold(first, requests)
	var calls sync.WaitGroup
	call := func(i int) { calls.Go(func() { use(buf, int64(i)*int64(len(buf))%fileBytes) }) } // until the connection ends
	call(0)
	<-rec.first
	for i := 1; i < n; i++ {
		call(i)
	}
	<-rec.full
	nc.SetReadDeadline(time.Unix(1, 0))
	<-rec.stopped
	calls.Wait()
	c.requests = rec.take()[:requests] // CANCELs and CLOSEs may follow
	file, err := nc.(*net.TCPConn).File()
	must(b, err)
	defer file.Close()
	c.fd, err = syscall.Dup(int(file.Fd()))
	must(b, err)
	must(b, syscall.SetNonblock(c.fd, false))
}

// replay sends the requests, depth of them in flight, and waits for the replies.
func (c *sealedClient) replay(depth int) {
	room, sent := make(chan struct{}, depth), make(chan struct{})
	go func() {
		defer close(sent)
		for _, frame := range c.requests {
			room <- struct{}{}
			c.sendFrame(frame)
		}
	}()
	for range c.requests {
		c.final()
		<-room
	}
	<-sent
}

// replayDecrypted is replay with the replies received and decrypted.
func (c *sealedClient) replayDecrypted(buffers [][]byte) {
	block, err := aes.NewCipher(make([]byte, 16))
	must(c.b, err)
	gcm, err := cipher.NewGCM(block)
	must(c.b, err)
	nonce := make([]byte, gcm.NonceSize())
	idle, waiting, full := make(chan []byte, len(buffers)), make(chan []byte, len(buffers)), make(chan []byte, len(buffers))
	for _, b := range buffers {
		idle <- b
	}
	var goroutines sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		goroutines.Go(func() {
			for b := range full {
				gcm.Seal(b[:0], nonce, b[:1<<20], nil)
				idle <- b
			}
		})
	}
	goroutines.Go(func() {
		for _, frame := range c.requests { // with a buffer for each call in flight
			waiting <- <-idle
			c.sendFrame(frame)
		}
	})
	for range c.requests {
		c.received = <-waiting
		c.final()
		full <- c.received
	}
	close(full)
	goroutines.Wait()
}

// replayPairs sends two requests and waits for both replies before it sends the next two.
func (c *sealedClient) replayPairs() {
	for i := 0; i < len(c.requests); i += 2 {
		c.sendFrame(c.requests[i])
		c.sendFrame(c.requests[i+1])
		c.final()
		c.final()
	}
}

// final discards the next reply and the interim ones before it.
func (c *sealedClient) final() {
	for n := 0; n < c.shortest; {
		c.recv(c.reply[:4])
		n = int(binary.BigEndian.Uint32(c.reply[:]))
		c.discard(n)
	}
}
