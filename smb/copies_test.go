package smb_test

import (
	"context"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
)

// directConn counts the bytes that are read to and written from watched, or a slice of it.
type directConn struct {
	net.Conn
	watched       []byte
	read, written int
}

// within reports whether b is a slice of watched that keeps its capacity.
func (c *directConn) within(b []byte) bool {
	return cap(b) > 0 && cap(c.watched) > 0 && &b[:cap(b)][cap(b)-1] == &c.watched[:cap(c.watched)][cap(c.watched)-1]
}

func (c *directConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.within(b) {
		c.read += n
	}
	return n, err
}

func (c *directConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.within(b) {
		c.written += n
	}
	return n, err
}

// TestCopies observes which bytes of a call are received into its slice and sent from it, on a connection that is no socket.
func TestCopies(t *testing.T) {
	faultnet.NeedsTCP(t, "how much one read of a pipe returns decides where it goes")
	const (
		firstBytes = 2 << 10 // of a reply, which are received into the receive buffer
		short      = 2 << 10 // a WRITE of fewer bytes is copied behind its header
	)
	for name, direct := range map[string]bool{"plain": true, "signed/GMAC": true, "encrypted/GCM": false} {
		t.Run(name, func(t *testing.T) {
			s := protections()[name]
			var nc *directConn
			f, err := scripted(t, s, smb.Dialer{DialFunc: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := s.Dial(ctx, network, addr)
				nc = &directConn{Conn: c}
				return nc, err
			}})
			must(t, err)
			ending, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, n := range []int{short - 1, short, 64 << 10} {
				for _, c := range []struct {
					f      *smb.File
					direct bool
				}{
					{f.WithContext(context.Background()), direct && n >= short},
					{f.WithContext(ending), false}, // the slice must be the caller's again when the context ends
				} {
					p := make([]byte, n)
					// The receiver uses the connection only for replies to requests that are sent later.
					nc.watched, nc.read, nc.written = p, 0, 0
					if m, err := c.f.WriteAt(p, 0); m != n || err != nil {
						t.Fatal(m, err)
					}
					if want := n; c.direct && nc.written != want || !c.direct && nc.written != 0 {
						t.Errorf("WRITE of %d bytes: %d are sent from the slice", n, nc.written)
					}
					if m, err := c.f.ReadAt(p, 0); m != n || err != nil {
						t.Fatal(m, err)
					}
					if direct && nc.read < n-firstBytes || !direct && nc.read != 0 {
						t.Errorf("READ of %d bytes: %d are received into the slice", n, nc.read)
					}
				}
			}
		})
	}
}
