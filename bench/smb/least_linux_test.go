package bench

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/crypt"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// BenchmarkLeast measures a client that does for each call of 1 MiB what every client must, and nothing else. Requests are
// prepared; only MessageId and offset change. The data of a WRITE in the clear is sent from one buffer for all calls, by one
// writev(2). The data of a READ is received into one buffer, by as few system calls as possible, and nothing looks at it.
// Encrypted messages are encrypted and decrypted once, in place, by crypto/cipher. Each thread receives a reply,
// and then sends the next request; threads=2 are two of them on one connection.
//
// As in BenchmarkSamba the calls are made over several connections, one after the other.
func BenchmarkLeast(b *testing.B) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Encrypted} {
		srv := rigtest.Start(b, rig.Config{Mode: mode})
		fill(b, srv)
		for _, op := range []string{"read", "write"} {
			for _, threads := range []int{1, 2} {
				// The names are those of BenchmarkSamba, so that all are in one table. One call at a time is one thread's.
				for _, depth := range []int{1, 8}[threads-1:] {
					b.Run(fmt.Sprintf("mode=%s/op=%s/shape=seq-1M/goroutines=%d/peer=least%d", mode.Name(), op, depth, threads), func(b *testing.B) {
						var clients []*leastClient
						for range connections {
							c := leastClientOf(b, srv, op, threads)
							c.exchange(32, depth) // the windows of the connection, as in steady state
							clients = append(clients, c)
						}
						b.SetBytes(1 << 20)
						spent := spending{srv: srv}
						b.StopTimer()
						b.ResetTimer()
						spent.start(b)
						for i, c := range clients {
							c.exchange(b.N*(i+1)/connections-b.N*i/connections, depth)
						}
						spent.stop(b)
						spent.report(b)
					})
				}
			}
		}
	}
}

// leastClient has the connection of another client and the message that all its requests are made of.
type leastClient struct {
	b       *testing.B
	fd      int
	write   bool
	request []byte      // header and body, without data
	sealer  cipher.AEAD // nil: in the clear
	opener  cipher.AEAD
	session uint64
	front   int // what precedes a message: its length and, if it is encrypted, another header
	threads []*leastThread
	data    []byte // of each WRITE in the clear

	mid, off, nonce atomic.Uint64 // of the next request
	sending         sync.Mutex
	receiving       sync.Mutex // and for lowWater
	lowWater        int
}

// leastThread has the memory of one thread of a leastClient.
type leastThread struct{ out, in []byte }

// leastClientOf has package smb log in, open and use a file, and takes over its connection.
func leastClientOf(b *testing.B, srv *rig.Server, op string, threads int) *leastClient {
	b.Helper()
	rec := record(b, srv.Addr)
	auth := &keyKeeper{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}}
	setUp := &setUpRecorder{recorder: rec}
	d := smb.Dialer{Initiator: auth, Host: "bench", NoReconnect: true, AllowUnsigned: true, Ciphers: []smb.Cipher{smb.AES128GCM}}
	session, err := d.NewSession(b.Context(), setUp)
	must(b, err)
	keys := setUp.keys(auth.context.SessionKey())
	share, err := session.Mount(b.Context(), srv.Share)
	must(b, err)
	f, err := share.WithContext(context.Background()).OpenFile("file", os.O_RDWR, 0)
	must(b, err)
	_, err = f.ReadAt(make([]byte, 8<<20), 0) // the server grants credits, and keeps its memory
	must(b, err)
	rec.take()
	c := &leastClient{b: b, write: op == "write", front: 4}
	length := proto.HeaderSize + 49 // with the byte that a READ ends with
	if c.write {
		length--
		_, err = f.WriteAt(make([]byte, smallBytes), 0)
	} else {
		_, err = f.ReadAt(make([]byte, smallBytes), 0)
	}
	must(b, err)
	requests := rec.take()
	message := requests[len(requests)-1][4:]
	if proto.Protocol(message) == proto.ProtocolTransform {
		c.session = le.Uint64(message[proto.TransformSessionID:])
		opener, err := crypt.NewOpener(proto.CipherAES128GCM, keys.Encrypt)
		must(b, err)
		message, err = opener.Open(append(message, make([]byte, crypt.Spare)...))
		must(b, err)
		c.sealer, c.opener = gcmOf(b, keys.Encrypt), gcmOf(b, keys.Decrypt)
		c.front += crypt.Overhead
		c.nonce.Store(1 << 63) // package smb's are below
	} else {
		c.data = make([]byte, 1<<20)
	}
	h, err := proto.DecodeHeader(message)
	must(b, err)
	c.mid.Store(h.MessageID + uint64(h.CreditCharge))
	c.request = moving(slices.Concat(make([]byte, 4), message[:length]), 1<<20)[4:]
	for range threads {
		c.threads = append(c.threads, &leastThread{
			out: make([]byte, c.front+length+1<<20+crypt.Spare),
			in:  make([]byte, c.front+proto.ReadResponsePrefix+1<<20+crypt.Spare),
		})
	}
	c.fd = rec.takeOver(b)
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

// exchange makes n calls, depth of them in flight.
func (c *leastClient) exchange(n, depth int) {
	begun := min(n, depth)
	for range begun {
		c.send(c.threads[0])
	}
	var received, sent atomic.Int64
	sent.Store(int64(begun))
	work := func(t *leastThread) {
		for received.Add(1) <= int64(n) {
			c.receive(t)
			if sent.Add(1) <= int64(n) {
				c.send(t)
			}
		}
	}
	var others sync.WaitGroup
	for _, t := range c.threads[1:] {
		others.Go(func() { work(t) })
	}
	work(c.threads[0])
	others.Wait()
}

// send sends the next request.
func (c *leastClient) send(t *leastThread) {
	message := t.out[c.front:][:len(c.request)]
	copy(message, c.request)
	charge := uint64(le.Uint16(message[proto.OffsetCreditCharge:]))
	le.PutUint64(message[proto.OffsetMessageID:], c.mid.Add(charge)-charge)
	le.PutUint64(message[proto.HeaderSize+8:], (c.off.Add(1)*(1<<20))%fileBytes)
	frame, data := t.out[:c.front+len(message)], c.data
	if !c.write {
		data = nil
	}
	if c.sealer != nil {
		if c.write {
			message = message[:len(message)+1<<20]
			frame = frame[:len(frame)+1<<20]
		}
		c.seal(frame[4:], message)
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)+len(data)-4))
	c.sending.Lock()
	c.sendAll(frame, data)
	c.sending.Unlock()
}

// seal encrypts message, which is the end of frame.
func (c *leastClient) seal(frame, message []byte) {
	h := proto.TransformHeader{Size: uint32(len(message)), Flags: proto.TransformEncrypted, SessionID: c.session}
	le.PutUint64(h.Nonce[:], c.nonce.Add(1))
	h.Append(frame[:0])
	nonce := frame[proto.TransformNonce:][:c.sealer.NonceSize()]
	sealed := c.sealer.Seal(message[:0], nonce, message, frame[proto.TransformNonce:crypt.Overhead])
	copy(frame[proto.TransformSignature:], sealed[len(message):])
}

// sendAll sends both slices, by one system call if the socket takes all.
func (c *leastClient) sendAll(frame, data []byte) {
	for len(frame) > 0 || len(data) > 0 {
		n, err := unix.Writev(c.fd, [][]byte{frame, data})
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			c.b.Error(err)
			return
		}
		k := min(n, len(frame))
		frame, data = frame[k:], data[n-k:]
	}
}

// receive receives and decrypts the next reply that is not an interim one.
func (c *leastClient) receive(t *leastThread) {
	for {
		c.receiving.Lock()
		n := c.receiveFrame(t.in)
		c.receiving.Unlock()
		message := t.in[c.front:n]
		if c.opener != nil {
			frame := t.in[4:]
			copy(t.in[n:], frame[proto.TransformSignature:proto.TransformNonce])
			nonce := frame[proto.TransformNonce:][:c.opener.NonceSize()]
			sealed := message[:len(message)+crypt.Spare]
			var err error
			message, err = c.opener.Open(sealed[:0], nonce, sealed, frame[proto.TransformNonce:crypt.Overhead])
			if err != nil {
				c.b.Error(err)
				return
			}
		}
		switch status := le.Uint32(message[proto.OffsetStatus:]); status {
		case uint32(proto.StatusPending):
		case 0:
			return
		default:
			c.b.Errorf("command %d: status %#x", message[proto.OffsetCommand], status)
			return
		}
	}
}

// receiveFrame receives one frame, and returns its length.
func (c *leastClient) receiveFrame(b []byte) int {
	got := c.front + proto.HeaderSize // every frame has as much
	if err := receiveAll(c.fd, b[:got]); err != nil {
		c.b.Error("receiving: ", err)
		return got
	}
	n := 4 + int(binary.BigEndian.Uint32(b))
	for got < n {
		k, _, err := unix.Recvfrom(c.fd, b[got:n], unix.MSG_DONTWAIT)
		if err == syscall.EINTR {
			continue
		}
		if err == syscall.EAGAIN {
			c.await(min(n-got, leastWater))
			continue
		}
		if err != nil || k == 0 {
			c.b.Error("receiving: ", k, err)
			return n
		}
		got += k
	}
	return n
}

// leastWater is how many bytes of a long reply wake the thread that receives it.
const leastWater = 1 << 20

// await waits until n bytes can be received.
func (c *leastClient) await(n int) {
	if c.lowWater != n {
		must(c.b, syscall.SetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n))
		c.lowWater = n
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, -1)
		if err == nil {
			return
		}
		if err != unix.EINTR {
			c.b.Error(err)
			return
		}
	}
}

func gcmOf(b *testing.B, key []byte) cipher.AEAD {
	b.Helper()
	block, err := aes.NewCipher(key)
	must(b, err)
	gcm, err := cipher.NewGCM(block)
	must(b, err)
	return gcm
}

// keyKeeper keeps the last authentication, which has the session key.
type keyKeeper struct {
	smb.Initiator
	context smb.SecurityContext
}

func (k *keyKeeper) Start(ctx context.Context, host string) (c smb.SecurityContext, err error) {
	k.context, err = k.Initiator.Start(ctx, host)
	return k.context, err
}

// setUpRecorder keeps what is received until keys is called.
type setUpRecorder struct {
	*recorder
	mu       sync.Mutex
	received []byte
	over     bool
}

func (r *setUpRecorder) Read(b []byte) (int, error) {
	n, err := r.recorder.Read(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.received = append(r.received, b[:n]...)
	}
	return n, err
}

// keys returns the keys of the session that the recorded messages have set up.
func (r *setUpRecorder) keys(sessionKey []byte) crypt.Keys {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	requests, replies := r.take(), frames(r.received)
	var preauth crypt.Preauth
	for i, request := range requests {
		preauth.Update(request[4:])
		if i < len(requests)-1 { // the last reply ends the set-up and is not part of it
			preauth.Update(replies[i][4:])
		}
	}
	return crypt.DeriveKeys(proto.Dialect311, proto.CipherAES128GCM, sessionKey, &preauth)
}
