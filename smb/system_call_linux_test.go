package smb_test

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/smb"
)

// recordConn is the server's end of a connection of type SOCK_SEQPACKET, on which what one system call sends arrives as one
// record. It counts the records.
type recordConn struct {
	net.Conn
	records   atomic.Int32
	buf, rest []byte
}

func (c *recordConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		n, err := c.Conn.Read(c.buf)
		if err != nil {
			return 0, err
		}
		c.records.Add(1)
		c.rest = c.buf[:n]
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// TestOneSystemCall sends requests by one system call each, with their data.
func TestOneSystemCall(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixpacket"})
			must(t, err)
			server := &recordConn{buf: make([]byte, 256<<10)}
			s := protections()[kind]
			f, err := scripted(t, s, smb.Dialer{DialFunc: func(context.Context, string, string) (net.Conn, error) {
				defer l.Close()
				nc, err := net.DialUnix("unixpacket", nil, l.Addr().(*net.UnixAddr))
				if err != nil {
					return nil, err
				}
				if server.Conn, err = l.Accept(); err != nil {
					nc.Close()
					return nil, err
				}
				go s.Serve(server)
				return nc, nil
			}})
			must(t, err)
			for name, ctx := range map[string]context.Context{"endless": context.Background(), "may end": t.Context()} {
				for _, n := range []int{1, 2<<10 - 1, 2 << 10, 64 << 10} {
					server.records.Store(0)
					m, err := f.WithContext(ctx).WriteAt(make([]byte, n), 0)
					if got := server.records.Load(); m != n || err != nil || got != 1 {
						t.Errorf("%s: WRITE of %d bytes: %d system calls, %v", name, n, got, err)
					}
				}
			}
		})
	}
}
