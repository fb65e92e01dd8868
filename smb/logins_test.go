package smb_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	"github.com/tarn-go/tarn/tarntest"
)

// TestLoginsOfOneCall has a server accept each login and end the connection when a file is opened again by its durable handle, each time
// or but for every fifth time, when it ends the connection at the next request instead. However the losses are spread, one call makes as
// many logins as it is repeated, and then fails.
func TestLoginsOfOneCall(t *testing.T) {
	const repetitions = 4
	for name, call := range map[string]func(f *smb.File) error{
		"ReadAt":      func(f *smb.File) error { _, err := f.ReadAt(make([]byte, 10), 0); return err },
		"Read":        func(f *smb.File) error { _, err := f.Read(make([]byte, 10)); return err },
		"ReadAt, big": func(f *smb.File) error { _, err := f.ReadAt(make([]byte, 9<<20), 0); return err },
		"ReadBuffer": func(f *smb.File) error {
			b, err := f.ReadBuffer(context.Background(), 0, 10)
			b.Free()
			return err
		},
		"WriteAt": func(f *smb.File) error { _, err := f.WriteAt(make([]byte, 10), 0); return err },
		"Stat":    func(f *smb.File) error { _, err := f.Stat(); return err },
		"Lock":    func(f *smb.File) error { return f.Lock(0, 1, smb.LockExclusive) },
		"Close":   func(f *smb.File) error { return f.Close() },
	} {
		for _, kind := range kinds() {
			for _, every := range []int32{5, 1 << 30} {
				disk := new(memoryDisk)
				disk.reset(map[string][]byte{"file": make([]byte, 10<<20)})
				s := protections()[kind]
				var logins, reopened atomic.Int32
				var cut atomic.Bool
				var last atomic.Pointer[script.Conn]
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					if before := last.Swap(c); before != c {
						logins.Add(1)
					}
					if !cut.Load() {
						return disk.hook(c, m)
					}
					switch m.Command {
					case proto.CommandNegotiate, proto.CommandSessionSetup, proto.CommandTreeConnect:
						return disk.hook(c, m)
					case proto.CommandCreate:
						if reopened.Add(1)%every == 0 {
							return disk.hook(c, m)
						}
					}
					c.Close()
					return true
				}
				d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, s.Dial), Pool: tarntest.NewPool(t), Limits: smb.Limits{KeepAlive: -1}}
				sess, err := d.Dial(t.Context(), "scripted")
				must(t, err)
				share, err := sess.Mount(t.Context(), "share")
				must(t, err)
				f, err := share.OpenFile("file", os.O_RDWR, 0)
				must(t, err)
				before := logins.Load()
				cut.Store(true)
				if err := call(f); !errors.Is(err, smb.ErrConnLost) && !errors.Is(err, smb.ErrHandleLost) {
					t.Errorf("%s, %s: %v", name, kind, err)
				}
				if n := logins.Load() - before; n > repetitions {
					t.Errorf("%s, %s, every %d: %d logins", name, kind, every, n)
				}
				sess.Close()
			}
		}
	}
}
