package smb_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// observedConn closes a channel when the client closes the connection.
type observedConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *observedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// The client notices that a server closed the connection while no request is in flight, without a further
// call.
func TestHangUpWhileIdle(t *testing.T) {
	s := &script.Server{}
	client, server := net.Pipe()
	nc := &observedConn{Conn: client, closed: make(chan struct{})}
	go s.Serve(server)
	f, err := scripted(t, s, smb.Dialer{
		DialFunc: func(context.Context, string, string) (net.Conn, error) { return nc, nil },
	})
	must(t, err)
	for range 3 {
		checkRead(t, f, 5000, 9)
	}
	server.Close()
	<-nc.closed
}

// TestReadersWhoGiveUp reads, in one and in several goroutines, some of whose contexts end early, from a
// server that pauses within frames for longer than those contexts last.
func TestReadersWhoGiveUp(t *testing.T) {
	for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM", "plain/one credit"} {
		for _, over := range []string{"pipe", "tcp"} {
			t.Run(kind+"/"+over, func(t *testing.T) {
				s := protections()[kind]
				frames := 0
				s.Split = func(frame []byte) (int, <-chan struct{}) {
					if frames++; frames < 20 || frames%23 != 0 {
						return 0, nil
					}
					rest := make(chan struct{})
					time.AfterFunc(15*time.Millisecond, func() { close(rest) })
					return frames * 977 % len(frame), rest
				}
				d := smb.Dialer{DialFunc: through(t, s.Dial)}
				if over == "tcp" {
					d.DialFunc = through(t, s.DialTCP)
				}
				f, err := scripted(t, s, d)
				must(t, err)
				lone := func() {
					for range 30 {
						checkRead(t, f, 1+rand.IntN(200_000), rand.Int64N(1<<20))
					}
				}
				lone()
				var callers sync.WaitGroup
				for range 4 {
					callers.Go(func() {
						for range 25 {
							readBriefly(t, f)
						}
					})
				}
				callers.Wait()
				lone()
				for range 10 {
					readBriefly(t, f)
				}
				checkRead(t, f, 3<<20, 5)
			})
		}
	}
}

// readBriefly reads under a context that ends after up to 20 ms.
func readBriefly(t *testing.T, f *smb.File) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20))*time.Millisecond)
	defer cancel()
	p, off := make([]byte, 1+rand.IntN(300_000)), rand.Int64N(1<<20)
	n, err := f.WithContext(ctx).ReadAt(p, off)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) || err == nil && n < len(p) {
		t.Error(n, err)
	}
	for i, b := range p[:n] {
		if b != script.At(off+int64(i)) {
			t.Errorf("wrong byte at %d", off+int64(i))
			return
		}
	}
}
