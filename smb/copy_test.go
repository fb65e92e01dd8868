package smb_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestCopyToItself copies a file to itself under each of its names.
func TestCopyToItself(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			share := mount(t, srv, smb.Dialer{})
			want := random(100_000)
			must(t, share.WriteFile("x", want, 0o666))
			must(t, os.Link(filepath.Join(srv.Dir, "x"), filepath.Join(srv.Dir, "hard")))
			must(t, os.Symlink("x", filepath.Join(srv.Dir, "soft")))
			for _, names := range [][2]string{{"x", "x"}, {"X", "x"}, {"./x", "x"}, {"hard", "x"}, {"x", "soft"}} {
				n, err := share.Copy(names[0], names[1])
				if n != 0 || !errors.Is(err, smb.ErrSameFile) {
					t.Errorf("Copy%v = %d, %v", names, n, err)
				}
				if !bytes.Equal(onDisk(t, srv, "x"), want) {
					t.Fatalf("Copy%v changed the file", names)
				}
			}
			// Over a longer file, and to a new one.
			must(t, share.WriteFile("long", random(300_000), 0o666))
			for _, dst := range []string{"long", "new"} {
				if n, err := share.Copy(dst, "x"); n != int64(len(want)) || err != nil || !bytes.Equal(onDisk(t, srv, dst), want) {
					t.Errorf("Copy to %s: %d, %v", dst, n, err)
				}
			}
		})
	}
}

// TestCopyShrunk copies more than the source has.
func TestCopyShrunk(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		must(t, share.WriteFile("from", random(100_000), 0o666))
		for _, n := range []int64{100_001, 3 << 20} {
			if _, err := copyRange(share, "to", "from", n); !errors.Is(err, smb.ErrChanged) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	})
}

// TestCopyWithoutIDs copies on a server that reports no file ids: to a file of another name, which is renamed
// when it is complete and removed when it is not.
func TestCopyWithoutIDs(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		full := false
		var opened []string
		renames, deletes := 0, 0
		s.Size = 1000
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			switch m.Command {
			case proto.CommandCreate:
				opened = append(opened, script.NameOf(m))
			case proto.CommandIoctl:
				b := make([]byte, 48, 96)
				b[0] = 49
				le.PutUint32(b[4:], le.Uint32(m.Body[4:]))
				le.PutUint32(b[32:], 64+48)
				switch le.Uint32(m.Body[4:]) {
				case proto.FsctlRequestResumeKey:
					b = b[:48+32]
				case proto.FsctlCopyChunkWrite:
					if full {
						c.Refuse(m, proto.StatusDiskFull)
						return true
					}
					b = b[:48+12]
					le.PutUint32(b[48+8:], 1000)
				default:
					return false
				}
				le.PutUint32(b[36:], uint32(len(b)-48))
				c.Reply(m, 0, b, script.AsAsked)
				return true
			case proto.CommandSetInfo:
				switch proto.InfoClass(m.Body[3]) {
				case proto.ClassRename:
					renames++
				case proto.ClassDisposition:
					deletes++
				}
			case proto.CommandQueryInfo:
				if proto.InfoClass(m.Body[3]) == proto.ClassNetworkOpen {
					b := append([]byte{9, 0, 72, 0, 56, 0, 0, 0}, make([]byte, 56)...)
					le.PutUint64(b[8+40:], 1000)
					c.Reply(m, 0, b, script.AsAsked)
					return true
				}
			}
			return false
		}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		if _, err := f.Share().Copy("d/a", "d/b"); err != nil || renames != 1 || deletes != 0 {
			t.Errorf("%v, %d renames, %d deletions, opened %q", err, renames, deletes, opened)
		}
		full, renames = true, 0
		if _, err := f.Share().Copy("d/a", "d/b"); err == nil || renames != 0 || deletes != 1 {
			t.Errorf("on a full disk: %v, %d renames, %d deletions, opened %q", err, renames, deletes, opened)
		}
	})
}

// copyCutter closes the connection after each third COPYCHUNK of the first six.
type copyCutter struct {
	mu      sync.Mutex
	copies  int // COPYCHUNKs sent
	cuts    int
	dialled int
}

func (c *copyCutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialled++
	return &copyCutConn{Conn: nc, c: c}, nil
}

// copyCutConn looks at frames, not at Writes: a relay may join the frames of several.
type copyCutConn struct {
	net.Conn
	c    *copyCutter
	head []byte // of the frame that is being sent, until it has as many bytes as seen looks at
	rest int    // bytes of that frame behind head that are still to be sent
}

func (x *copyCutConn) Write(p []byte) (int, error) {
	n, err := x.Conn.Write(p)
	cut := false
	for p = p[:n]; len(p) > 0; {
		if x.rest > 0 {
			skipped := min(x.rest, len(p))
			p, x.rest = p[skipped:], x.rest-skipped
			continue
		}
		const length, code = 4, 4 + proto.HeaderSize + 4
		x.head, p = append(x.head, p[0]), p[1:]
		if len(x.head) < length {
			continue
		}
		frame := length + int(binary.BigEndian.Uint32(x.head))
		if looked := min(frame, code+4); len(x.head) == looked {
			cut = x.c.seen(x.head) || cut
			x.head, x.rest = x.head[:0], frame-looked
		}
	}
	if cut {
		x.Conn.Close()
	}
	return n, err
}

// seen counts a frame, of which it gets the beginning, and reports whether to close the connection.
func (c *copyCutter) seen(head []byte) bool {
	const frame, code = 4, 4 + proto.HeaderSize + 4
	if len(head) < code+4 || proto.Command(le.Uint16(head[frame+12:])) != proto.CommandIoctl || le.Uint32(head[code:]) != proto.FsctlCopyChunkWrite {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copies++
	cut := c.copies%3 == 0 && c.copies <= 6
	if cut {
		c.cuts++
	}
	return cut
}

// TestCopyAcrossLoss closes the connection during a server-side copy: the copy continues on the next connection
// where it was, with a new key for the source.
func TestCopyAcrossLoss(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{Share: durableShare()})
	// Seven requests of 16 MiB: more than up to the second cut, even if the server has answered each request before the cut behind it.
	want := random(102<<20 + 12345)
	must(t, os.WriteFile(srv.Dir+"/from", want, 0o666))
	var c copyCutter
	share := mount(t, srv, smb.Dialer{DialFunc: through(t, c.dial)})
	// A server may drop a handle together with its connection. Then Copy returns ErrHandleLost and the test
	// starts it again.
	begun := 0
	for {
		begun++
		n, err := copyRange(share, "to", "from", int64(len(want)))
		if err == nil && n != int64(len(want)) {
			t.Fatalf("%d bytes", n)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, smb.ErrHandleLost) {
			t.Fatal(n, err)
		}
		t.Log(err)
	}
	if !bytes.Equal(onDisk(t, srv, "to"), want) {
		t.Error("the copy has other bytes")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Each lost connection repeats what was in flight on it, two requests of 16 MiB. The test does not count
	// connections: a busy server may close one that the test did not close.
	requests := (len(want) + 16<<20 - 1) / (16 << 20)
	if c.cuts != 2 || c.dialled <= c.cuts || c.copies > begun*requests+2*(c.dialled-1) {
		t.Errorf("begun %d times: %d cuts, %d connections, %d requests", begun, c.cuts, c.dialled, c.copies)
	}
}

// copyRange copies the first n bytes of a file.
func copyRange(share *smb.Share, dst, src string, n int64) (int64, error) {
	from, err := share.Open(src)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := share.Create(dst)
	if err != nil {
		return 0, err
	}
	defer to.Close()
	return to.CopyRange(from, 0, 0, n)
}

// TestCopyToAppended has the server copy to a file that is opened for appending: it stays as it is.
func TestCopyToAppended(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		must(t, share.WriteFile("src", []byte("new"), 0o666))
		must(t, share.WriteFile("dst", []byte("old "), 0o666))
		src, err := share.Open("src")
		must(t, err)
		defer src.Close()
		dst, err := share.OpenFile("dst", os.O_RDWR|os.O_APPEND, 0)
		must(t, err)
		defer dst.Close()
		if n, err := dst.CopyRange(src, 0, 0, 3); n != 0 || !errors.Is(err, smb.ErrUnsupported) {
			t.Errorf("CopyRange: %d, %v", n, err)
		}
		if n, err := dst.CopyFrom(src); n != 0 || !errors.Is(err, smb.ErrUnsupported) {
			t.Errorf("CopyFrom: %d, %v", n, err)
		}
		if b, err := share.ReadFile("dst"); string(b) != "old " || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// TestCopyFromOutdated copies to an open file that another client has written to since it was opened: nothing of that is left, neither behind
// the copy nor in its holes.
func TestCopyFromOutdated(t *testing.T) {
	e := newFaultyShare(t, "plain", faultnet.TCP)
	for _, had := range []int{0, 100, 5000} {
		for name, want := range map[string][]byte{"small": e.want[:5000], "sparse": e.holed} {
			e.begin()
			must(t, e.share.WriteFile("target", make([]byte, had), 0o666))
			from, err := e.share.Open(name)
			must(t, err)
			to, err := e.share.OpenFile("target", os.O_RDWR, 0)
			must(t, err)
			e.disk.change("target", func(n *memoryNode) { n.data = bytes.Repeat([]byte("x"), 2*len(want)) })
			n, err := to.CopyFrom(from)
			must(t, e.written("target", want, err))
			if n != int64(len(want)) {
				t.Errorf("%d bytes", n)
			}
			must(t, errors.Join(to.Close(), from.Close()))
		}
	}
}
