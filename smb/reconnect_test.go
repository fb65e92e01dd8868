package smb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// durableGrant is the context of a CREATE reply that grants a durable handle.
func durableGrant() []byte {
	b := make([]byte, 32)
	le.PutUint16(b[4:], 16)
	le.PutUint16(b[6:], 4)
	le.PutUint16(b[10:], 24)
	le.PutUint32(b[12:], 8)
	copy(b[16:], "DH2Q")
	return b
}

// A durable handle is reopened by opening the file, never by creating or truncating it, and a server that
// opens another file instead is detected.
func TestReopenOpens(t *testing.T) {
	for _, c := range []struct {
		name   string
		action proto.CreateAction
		id     uint64
		want   error
	}{
		{"the same", proto.ActionOpened, 1, nil},
		{"emptied", proto.ActionOverwritten, 1, smb.ErrHandleLost},
		{"made anew", proto.ActionCreated, 1, smb.ErrHandleLost},
		{"another", proto.ActionOpened, 99, smb.ErrHandleLost},
	} {
		for _, kind := range kinds() {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				s := protections()[kind]
				var asked []proto.Disposition
				var closed []uint64
				var live *script.Conn
				s.Hook = func(conn *script.Conn, m *script.Message) bool {
					live = conn
					switch m.Command {
					case proto.CommandCreate:
						asked = append(asked, proto.Disposition(le.Uint32(m.Body[36:])))
						conn.Opened(m, durableGrant(), func(b []byte) {
							b[2] = byte(proto.OplockBatch)
							if len(asked) > 1 {
								le.PutUint32(b[4:], uint32(c.action))
								le.PutUint64(b[64:], c.id)
							}
						})
						return true
					case proto.CommandClose:
						closed = append(closed, le.Uint64(m.Body[8:]))
					}
					return false
				}
				d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, s.Dial), Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}}
				sess, err := d.Dial(t.Context(), "scripted")
				must(t, err)
				defer sess.Close()
				share, err := sess.Mount(t.Context(), "share")
				must(t, err)
				f, err := share.Create("file")
				must(t, err)
				live.Close()
				_, err = f.ReadAt(make([]byte, 10), 0)
				if !errors.Is(err, c.want) {
					t.Errorf("ReadAt: %v", err)
				}
				if len(asked) != 2 || asked[1] != proto.DispositionOpen {
					t.Errorf("dispositions of the CREATEs: %v", asked)
				}
				if c.want != nil && (len(closed) != 1 || closed[0] != c.id) {
					t.Errorf("closed: %v", closed)
				}
			})
		}
	}
}

// TestRestartedServer dials a server that refuses connections for a while: an operation that needs the
// connection waits for it, within the limit.
func TestRestartedServer(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, c := range []struct {
		down time.Duration
		want error
	}{{150 * time.Millisecond, nil}, {2 * time.Second, nil}, {time.Minute, smb.ErrConnLost}} {
		for _, kind := range kinds() {
			t.Run(kind+"/"+c.down.String(), func(t *testing.T) {
				s := protections()[kind]
				synctest.Test(t, func(t *testing.T) {
					var last net.Conn
					var until time.Time
					f, err := scripted(t, s, smb.Dialer{DialFunc: func(ctx context.Context, n, a string) (net.Conn, error) {
						if time.Now().Before(until) {
							return nil, fmt.Errorf("dial %s: connection refused", a)
						}
						nc, err := through(t, s.Dial)(ctx, n, a)
						last = nc
						return nc, err
					}})
					must(t, err)
					share := f.Share()
					last.Close()
					begun := time.Now()
					until = begun.Add(c.down)
					const callers = 5
					failed := make(chan error)
					for range callers {
						go func() { _, err := share.Stat("file"); failed <- err }()
					}
					for range callers {
						if err := <-failed; !errors.Is(err, c.want) {
							t.Errorf("Stat: %v", err)
						}
					}
					if d := time.Since(begun); d > smb.DefaultRedialTimeout+time.Second || d < min(c.down, time.Second) {
						t.Errorf("took %v", d)
					}
				})
			})
		}
	}
}

// TestRepeated loses the connection during each operation that is repeated.
func TestRepeated(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode, Share: durableShare()})
			var c cutter
			share := mount(t, srv, smb.Dialer{DialFunc: through(t, c.dial)})
			must(t, share.WriteFile("f", make([]byte, 1000), 0o666))
			must(t, share.WriteFile("other", make([]byte, 1000), 0o666)) // opening f by its name would break its durable handle
			must(t, share.Mkdir("d", 0o777))
			f, err := share.OpenFile("f", os.O_RDWR, 0)
			must(t, err)
			d, err := share.Open("d")
			must(t, err)
			for name, op := range map[string]func() error{
				"File.Stat":     func() error { _, err := f.Stat(); return err },
				"Seek":          func() error { _, err := f.Seek(0, io.SeekEnd); return err },
				"Sync":          f.Sync,
				"Chtimes":       func() error { return f.Chtimes(time.Time{}, time.Now()) },
				"File.Truncate": func() error { return f.Truncate(500) },
				"ReadBuffer": func() error {
					b, err := f.ReadBuffer(t.Context(), 0, 10)
					b.Free()
					return err
				},
				"Stat of a directory": func() error { _, err := d.Stat(); return err },
				"ReadFile":            func() error { _, err := share.ReadFile("other"); return err },
				"WriteFile":           func() error { return share.WriteFile("g", make([]byte, 100), 0o666) },
				"ReadDir":             func() error { _, err := share.ReadDir("."); return err },
			} {
				c.cut()
				if err := op(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			must(t, f.Close())
			must(t, d.Close())
		})
	}
}

// TestListingAcrossLoss loses the connection during a listing: every entry is returned once.
func TestListingAcrossLoss(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			var c cutter
			share := mount(t, srv, smb.Dialer{DialFunc: through(t, c.dial), Limits: smb.Limits{MaxTransact: 64 << 10}})
			const many = 1200 // four replies
			for i := range many {
				must(t, os.WriteFile(fmt.Sprintf("%s/%s%d", srv.Dir, strings.Repeat("n", 60), i), nil, 0o666))
			}
			check := func(name string, list func(yield func(fs.DirEntry, error) bool)) {
				seen := map[string]bool{}
				for e, err := range list {
					must(t, err)
					if seen[e.Name()] {
						t.Fatalf("%s: %s came twice", name, e.Name())
					}
					seen[e.Name()] = true
					if len(seen)%400 == 200 {
						c.cut()
					}
				}
				if len(seen) != many {
					t.Errorf("%s: %d entries", name, len(seen))
				}
			}
			check("Entries", share.Entries("."))
			d, err := share.Open(".")
			must(t, err)
			check("File.ReadDir", func(yield func(fs.DirEntry, error) bool) {
				for {
					list, err := d.ReadDir(7)
					if err == io.EOF {
						return
					}
					must(t, err)
					for _, e := range list {
						yield(e, nil)
					}
				}
			})
			must(t, d.Close())
		})
	}
}

// An open directory is not confused with another one that got its name while the connection was lost, and it
// is recognised after its contents and times have changed.
func TestReplacedDirectory(t *testing.T) {
	eachMode(t, rig.Config{}, testReplacedDirectory)
}

func testReplacedDirectory(t *testing.T, srv *rig.Server) {
	var c cutter
	share := mount(t, srv, smb.Dialer{DialFunc: through(t, c.dial)})
	for _, name := range []string{"changed", "replaced"} {
		must(t, share.Mkdir(name, 0o777))
		must(t, share.WriteFile(name+"/file", nil, 0o666))
	}
	changed, err := share.Open("changed")
	must(t, err)
	defer changed.Close()
	replaced, err := share.Open("replaced")
	must(t, err)
	defer replaced.Close()
	must(t, share.WriteFile("changed/another", nil, 0o666))
	must(t, share.Chtimes("changed", time.Unix(1e9, 0), time.Unix(1e9, 0)))
	c.cut()
	must(t, os.Rename(srv.Dir+"/replaced", srv.Dir+"/away"))
	must(t, os.Mkdir(srv.Dir+"/replaced", 0o777))
	if list, err := changed.Readdirnames(-1); err != nil || len(list) != 2 {
		t.Errorf("%q, %v", list, err)
	}
	if list, err := replaced.Readdirnames(-1); !errors.Is(err, smb.ErrHandleLost) {
		t.Errorf("%q, %v", list, err)
	}
}

// A server answers cancelled requests twice, and the CANCEL too: the session continues.
func TestCancelledAnsweredTwice(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			held := map[uint64]script.Message{}
			asked := make(chan struct{}, 1)
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch m.Command {
				case proto.CommandRead:
					if le.Uint32(m.Body[4:]) != 100 {
						return false
					}
					held[m.MessageID] = script.Message{Header: m.Header, Body: bytes.Clone(m.Body), Sealed: m.Sealed}
					asked <- struct{}{}
					return true
				case proto.CommandCancel:
					read := held[m.MessageID]
					c.Refuse(&read, proto.StatusCancelled)
					c.Refuse(&read, proto.StatusCancelled)
					c.Refuse(m, proto.StatusCancelled)
					return true
				}
				return false
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-asked; cancel() }()
				if _, err := f.WithContext(ctx).ReadAt(make([]byte, 100), 0); !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				checkRead(t, f, 5000, 7)
			}
		})
	}
}

// TestOneCredit uses a server that grants one credit at a time, so that no two requests may be in flight,
// also beside a CHANGE_NOTIFY that is not answered.
func TestOneCredit(t *testing.T) {
	for _, kind := range []string{"plain/one credit", "signed/one credit", "encrypted/one credit"} {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			watching := make(chan struct{})
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				if m.Command == proto.CommandChangeNotify {
					c.Pend(m, 5)
					close(watching)
					return true
				}
				return false
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			share := f.Share().WithContext(ctx)
			use := func() {
				t.Helper()
				if _, err := share.Stat("file"); err != nil {
					t.Error("Stat:", err)
				}
				if err := share.Mkdir("d", 0o777); err != nil {
					t.Error("Mkdir:", err)
				}
				if err := share.Rename("d", "e"); err != nil {
					t.Error("Rename:", err)
				}
				if err := share.Remove("e"); err != nil {
					t.Error("Remove:", err)
				}
				if err := share.Truncate("file", 10); err != nil {
					t.Error("Truncate:", err)
				}
			}
			use()
			w, err := share.Watch(".", smb.WatchAll)
			must(t, err)
			ended := make(chan struct{})
			go func() { w.Next(ctx); close(ended) }()
			<-watching
			use()
			w.Close()
			<-ended
		})
	}
}
