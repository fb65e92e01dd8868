package smb_test

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestSplitWhenIdle records the lengths of the requests for calls of 1 MiB: a call that finds nothing in flight is split in
// two where that keeps both sides busy, and one that finds another request in flight is not.
func TestSplitWhenIdle(t *testing.T) {
	const call = 1 << 20
	halves, parts, whole := []int{512 << 10, 512 << 10}, []int{704 << 10, 320 << 10}, []int{call}
	for _, c := range []struct {
		protection string
		sockets    bool
		idle       []int
	}{
		{"plain", false, parts},
		{"plain", true, parts},
		{"signed/GMAC", false, halves},
		{"signed/GMAC", true, halves},
		{"encrypted/GCM", false, halves},
		{"encrypted/GCM", true, halves},
	} {
		name := c.protection + " in memory"
		if c.sockets {
			name = c.protection + " over TCP"
		}
		t.Run(name, func(t *testing.T) {
			s := protections()[c.protection]
			sizes := make(chan int, 10) // of READ and WRITE
			arrived := make(chan struct{})
			var hold atomic.Bool // the next READ is held, and answered when an ECHO comes
			var held script.Message
			s.Hook = func(conn *script.Conn, m *script.Message) bool {
				switch m.Command {
				case proto.CommandRead:
					if hold.Swap(false) {
						held = *m
						held.Body = bytes.Clone(m.Body)
						close(arrived)
						return true
					}
					sizes <- int(le.Uint32(m.Body[4:]))
				case proto.CommandWrite:
					sizes <- int(le.Uint32(m.Body[4:]))
				case proto.CommandEcho:
					if held.Body != nil {
						conn.Obey(&held)
						held.Body = nil
					}
				}
				return false
			}
			d := smb.Dialer{}
			if c.sockets {
				d.DialFunc = through(t, s.DialTCP)
			}
			f, err := scripted(t, s, d)
			must(t, err)
			b := make([]byte, call)
			check := func(what string, want []int, use func([]byte, int64) (int, error)) {
				t.Helper()
				if n, err := use(b, 0); n != call || err != nil {
					t.Fatal(what, n, err)
				}
				var got []int
				for len(sizes) > 0 {
					got = append(got, <-sizes)
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: requests of %d bytes, want %d", what, got, want)
				}
			}
			check("idle read", c.idle, f.ReadAt)
			check("idle write", c.idle, f.WriteAt)

			hold.Store(true)
			answered := make(chan error, 1)
			go func() {
				_, err := f.ReadAt(make([]byte, 1), 0)
				answered <- err
			}()
			<-arrived
			check("read beside another request", whole, f.ReadAt)
			check("write beside another request", whole, f.WriteAt)
			must(t, f.Share().Session().Echo(t.Context()))
			must(t, <-answered)
		})
	}
}
