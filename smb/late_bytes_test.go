package smb_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
)

// lateConn is a connection through a network that can hold back what the client sends. When the client closes it then, the server
// does not see that before the held bytes.
type lateConn struct {
	net.Conn
	mu      sync.Mutex
	holding chan struct{} // not nil: bytes are held back; closed with the first ones
	held    []byte
}

func (c *lateConn) hold() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = make(chan struct{})
	return c.holding
}

func (c *lateConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holding == nil {
		return c.Conn.Write(b)
	}
	if len(c.held) == 0 {
		close(c.holding)
	}
	c.held = append(c.held, b...)
	return len(b), nil
}

func (c *lateConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holding == nil {
		return c.Conn.Close()
	}
	return c.Conn.SetReadDeadline(time.Unix(1, 0)) // ends the client's read
}

// deliver sends the server the held bytes, and returns when it has ended the connection.
func (c *lateConn) deliver(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	must(t, c.Conn.SetReadDeadline(time.Time{}))
	_, err := c.Conn.Write(c.held)
	must(t, err)
	must(t, c.Conn.(*net.TCPConn).CloseWrite())
	io.Copy(io.Discard, c.Conn)
	c.Conn.Close()
}

// TestLateBytes loses a connection whose last WRITE arrives at the server after the client has come back and has written again: the
// server has ended the session that the WRITE belongs to, because the new one names it as its PreviousSessionId, and does not carry
// the WRITE out.
func TestLateBytes(t *testing.T) {
	eachMode(t, rig.Config{Share: durableShare()}, func(t *testing.T, srv *rig.Server) {
		var last *lateConn
		share := mount(t, srv, smb.Dialer{DialFunc: through(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			last = &lateConn{Conn: nc}
			return last, nil
		})})
		old, now := bytes.Repeat([]byte("o"), 50_000), bytes.Repeat([]byte("n"), 50_000)
		check := func(name string) {
			t.Helper()
			if b, err := share.ReadFile(name); err != nil || !bytes.Equal(b, now) {
				t.Errorf("%s: the late WRITE was carried out after the newer one (%v)", name, err)
			}
		}
		for _, call := range []struct {
			name  string
			write func(f *smb.File, b []byte) error
		}{
			{"WriteFile", func(_ *smb.File, b []byte) error { return share.WriteFile("WriteFile", b, 0o666) }},
			{"WriteAt", func(f *smb.File, b []byte) error { _, err := f.WriteAt(b, 0); return err }},
		} {
			f, err := share.Create(call.name)
			must(t, err)
			if call.name == "WriteFile" {
				must(t, f.Close())
			}
			lost := last
			sent := lost.hold()
			done := make(chan error, 1)
			go func() { done <- call.write(f, old) }()
			<-sent
			lost.Close()
			must(t, <-done) // repeated on another connection
			must(t, call.write(f, now))
			check(call.name)
			lost.deliver(t)
			check(call.name)
			f.Close()
		}
	})
}
