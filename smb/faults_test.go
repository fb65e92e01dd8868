package smb_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/tarntest"
)

// cutConn closes after a number of bytes in either direction.
type cutConn struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cutConn) spend(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, c.left)
	c.left -= n
	if c.left == 0 {
		c.Conn.Close()
	}
	return n
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if m := c.spend(n); m < n {
		return m, net.ErrClosed
	}
	return n, err
}

func (c *cutConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	n := min(len(p), c.left)
	c.left -= n
	c.mu.Unlock()
	m, err := c.Conn.Write(p[:n])
	if n < len(p) && err == nil {
		c.Conn.Close()
		err = net.ErrClosed
	}
	return m, err
}

// converse runs a complete conversation and returns how many bytes the server acknowledged.
func converse(ctx context.Context, d smb.Dialer) (int, error) {
	sess, err := d.Dial(ctx, "scripted")
	if err != nil {
		return 0, err
	}
	defer sess.Close()
	share, err := sess.Mount(ctx, "share")
	if err != nil {
		return 0, err
	}
	share = share.WithContext(ctx)
	f, err := share.Open("file")
	if err != nil {
		return 0, err
	}
	if _, err := f.ReadAt(make([]byte, 300), 0); err != nil {
		return 0, err
	}
	n, err := f.WriteAt(make([]byte, 300), 0)
	if err != nil {
		return n, err
	}
	if _, err := share.Stat("file"); err != nil {
		return n, err
	}
	return n, errors.Join(f.Close(), sess.Logoff(ctx))
}

// TestCutEverywhere closes the connection at every byte of a conversation: the error is always ErrConnLost, no
// call hangs, and every buffer is freed. Signed and encrypted conversations have the same framing as plain ones
// and are closed at every fifth byte; with TARN_LONG=1 at every byte, too.
func TestCutEverywhere(t *testing.T) {
	for kind, step := range map[string]int{"plain": 1, "signed/GMAC": 5, "encrypted/GCM": 5} {
		if os.Getenv("TARN_LONG") != "" {
			step = 1
		}
		t.Run(kind, func(t *testing.T) {
			pool := tarntest.NewPool(t)
			for at := 0; ; at += step {
				s := protections()[kind]
				var cut *cutConn
				d := smb.Dialer{Initiator: fixedKey{}, Pool: pool, NoReconnect: true, Limits: smb.Limits{KeepAlive: -1}}
				d.DialFunc = func(ctx context.Context, n, a string) (net.Conn, error) {
					nc, err := through(t, s.Dial)(ctx, n, a)
					cut = &cutConn{Conn: nc, left: at}
					return cut, err
				}
				n, err := converse(t.Context(), d)
				if err == nil {
					if cut.left > 0 {
						t.Logf("%d bytes", at)
						return
					}
					continue
				}
				if !errors.Is(err, smb.ErrConnLost) {
					t.Fatalf("cut after %d bytes: %d, %v", at, n, err)
				}
				if at > 100_000 {
					t.Fatal("without end")
				}
			}
		})
	}
}

// cutter dials a real server and can close the connections that it dialled.
type cutter struct {
	mu   sync.Mutex
	last net.Conn
	made int
}

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = nc
	c.made++
	return nc, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.Close()
}

// durableShare are the lines of smb.conf with which Samba keeps every durable handle. All but the last are defaults of 4.17 (TestDurableSettings).
func durableShare() []string {
	return []string{"kernel oplocks = no", "kernel share modes = no", "posix locking = no"}
}

// TestDurableSettings closes the connection under an open file, with and without a lock, of shares with different settings.
func TestDurableSettings(t *testing.T) {
	for _, settings := range []struct {
		lines        []string
		kept, locked bool // whether the file survives
	}{
		{nil, true, false},
		{[]string{"posix locking = no"}, true, true},
		{[]string{"kernel oplocks = yes"}, false, false},
	} {
		t.Run(strings.Join(settings.lines, ", "), func(t *testing.T) {
			eachMode(t, rig.Config{Share: settings.lines}, func(t *testing.T, srv *rig.Server) {
				for what, kept := range map[string]bool{"no lock": settings.kept, "a lock": settings.locked} {
					var c cutter
					share := mount(t, srv, smb.Dialer{DialFunc: through(t, c.dial)})
					f, err := share.Create(what)
					must(t, err)
					_, err = f.Write([]byte("content"))
					must(t, err)
					if what == "a lock" {
						must(t, f.Lock(0, 1, smb.LockExclusive))
					}
					c.cut()
					_, err = f.ReadAt(make([]byte, 7), 0)
					if kept && err != nil || !kept && !errors.Is(err, smb.ErrHandleLost) && !errors.Is(err, smb.ErrConnLost) {
						t.Errorf("with %s: %v", what, err)
					}
					f.Close()
				}
			})
		})
	}
}

// TestReconnect closes connections under open files: with durable handles their use continues.
func TestReconnect(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode, Share: durableShare()})
			var c cutter
			share := mount(t, srv, smb.Dialer{DialFunc: through(t, c.dial)})
			want := random(3 << 20)
			must(t, share.WriteFile("f", want, 0o666))
			f, err := share.OpenFile("f", os.O_RDWR, 0)
			must(t, err)
			got := make([]byte, len(want))
			for i := range 4 {
				if n, err := f.ReadAt(got, 0); n != len(got) || err != nil || !bytes.Equal(got, want) {
					t.Fatalf("round %d: %d, %v", i, n, err)
				}
				copy(want[i*1000:], random(1000))
				if n, err := f.WriteAt(want[i*1000:(i+1)*1000], int64(i*1000)); n != 1000 || err != nil {
					t.Fatalf("round %d: %d, %v", i, n, err)
				}
				c.cut()
			}
			if _, err := share.Stat("f"); err != nil {
				t.Error(err)
			}
			must(t, f.Close())
			if !bytes.Equal(onDisk(t, srv, "f"), want) {
				t.Error("the disk has other content")
			}
			if c.made < 4 {
				t.Errorf("dialled %d times", c.made)
			}
		})
	}
}

// TestHandleLost closes the connection to a server that keeps no handles.
func TestHandleLost(t *testing.T) {
	eachMode(t, rig.Config{Global: []string{"durable handles = no"}}, testHandleLost)
}

func testHandleLost(t *testing.T, srv *rig.Server) {
	var c cutter
	share := mount(t, srv, smb.Dialer{DialFunc: through(t, c.dial)})
	must(t, share.WriteFile("f", []byte("hello"), 0o666))
	f, err := share.Open("f")
	must(t, err)
	c.cut()
	for range 2 {
		if _, err := f.ReadAt(make([]byte, 5), 0); !errors.Is(err, smb.ErrHandleLost) && !errors.Is(err, smb.ErrConnLost) {
			t.Error(err)
		}
	}
	if _, err := f.ReadAt(make([]byte, 5), 0); !errors.Is(err, smb.ErrHandleLost) {
		t.Error(err)
	}
	if b, err := share.ReadFile("f"); err != nil || string(b) != "hello" {
		t.Error(b, err)
	}
	if err := f.Close(); !errors.Is(err, smb.ErrHandleLost) {
		t.Error(err)
	}
}

// TestKilled kills the server during writes: acknowledged data is on its disk.
func TestKilled(t *testing.T) { eachMode(t, rig.Config{}, testKilled) }

func testKilled(t *testing.T, srv *rig.Server) {
	share := mount(t, srv, smb.Dialer{Limits: smb.Limits{RedialTimeout: -1}})
	f, err := share.Create("f")
	must(t, err)
	want := random(64 << 20)
	acknowledged := make(chan int, 1)
	started := make(chan struct{})
	var once sync.Once
	go func() {
		total := 0
		for total < len(want) {
			n, err := f.Write(want[total:min(len(want), total+3<<20)])
			total += n
			if total > 0 {
				once.Do(func() { close(started) })
			}
			if err != nil {
				if !errors.Is(err, smb.ErrConnLost) {
					t.Error(err)
				}
				break
			}
		}
		acknowledged <- total
	}()
	<-started
	srv.Kill()
	n := <-acknowledged
	disk, err := os.ReadFile(filepath.Join(srv.Dir, "f"))
	must(t, err)
	if len(disk) < n || !bytes.Equal(disk[:n], want[:n]) {
		t.Errorf("%d bytes were acknowledged, the disk has %d", n, len(disk))
	}
	if _, err := share.Stat("f"); !errors.Is(err, smb.ErrConnLost) {
		t.Error(err)
	}
	must(t, srv.Start())
	if _, err := share.Stat("f"); err != nil {
		t.Error("after a restart:", err)
	}
	// The server does not know the handle. It knows the file.
	if _, err := f.Write(want); !errors.Is(err, smb.ErrHandleLost) || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestLeaseBreaks opens, renames and removes files that are open and durable. The server answers each request that
// breaks a lease when the break is acknowledged, or else after half a minute, when the request has failed.
func TestLeaseBreaks(t *testing.T) { eachMode(t, rig.Config{Share: durableShare()}, testLeaseBreaks) }

func testLeaseBreaks(t *testing.T, srv *rig.Server) {
	share := mount(t, srv, smb.Dialer{})
	mounted := mount(t, srv, smb.Dialer{})
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		other := mounted.WithContext(ctx)
		must(t, share.WriteFile("f", []byte("1"), 0o666))
		a, err := share.OpenFile("f", os.O_RDWR, 0)
		must(t, err)
		b, err := other.OpenFile("f", os.O_RDWR, 0)
		must(t, err)
		_, err = b.WriteAt([]byte("2"), 0)
		must(t, err)
		got := make([]byte, 1)
		if _, err := a.ReadAt(got, 0); err != nil || got[0] != '2' {
			t.Error(got, err)
		}
		must(t, other.Rename("f", "g"))
		must(t, a.Close())
		must(t, b.Close())
		must(t, share.Remove("g"))
		cancel()
	}
}
