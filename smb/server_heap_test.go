package smb_test

import (
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestServerHeap: the request that makes a server's heap grow is sent once for a connection, by the first
// long READ or WRITE, to servers that allow it, and a refusal or a late answer has no effect.
func TestServerHeap(t *testing.T) {
	const long, short = 1 << 20, 256 << 10
	for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
		for _, c := range []struct {
			name  string
			maxIO uint32
			use   func(t *testing.T, f *smb.File)
			want  int32
			how   func(c *script.Conn, m *script.Message) bool
		}{
			{"short", 0, func(t *testing.T, f *smb.File) { checkRead(t, f, short, 0) }, 0, nil},
			{"long", 0, func(t *testing.T, f *smb.File) { checkRead(t, f, long, 0); checkRead(t, f, 5*long, 3) }, 1, nil},
			{"write", 0, func(t *testing.T, f *smb.File) {
				for range 3 {
					if n, err := f.WriteAt(make([]byte, long), 0); n != long || err != nil {
						t.Error(n, err)
					}
				}
			}, 1, nil},
			{"server of 1 MiB", 1 << 20, func(t *testing.T, f *smb.File) { checkRead(t, f, 5*long, 0) }, 0, nil},
			{"refused", 0, func(t *testing.T, f *smb.File) { checkRead(t, f, long, 0); checkRead(t, f, long, 5) }, 1,
				func(c *script.Conn, m *script.Message) bool {
					c.Refuse(m, proto.StatusInvalidParameter)
					return true
				}},
			{"never answered", 0, func(t *testing.T, f *smb.File) { checkRead(t, f, long, 0); checkRead(t, f, long, 5) }, 1,
				func(*script.Conn, *script.Message) bool { return true }},
		} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				var asked atomic.Int32
				s := protections()[kind]
				s.MaxIO = c.maxIO
				s.Hook = func(sc *script.Conn, m *script.Message) bool {
					if m.Command != proto.CommandQueryInfo || le.Uint32(m.Body[4:]) != 8<<20 {
						return false
					}
					asked.Add(1)
					if int(m.CreditCharge) != 128 {
						t.Errorf("it is charged %d credits", m.CreditCharge)
					}
					return c.how != nil && c.how(sc, m)
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				c.use(t, f)
				must(t, f.Close())
				if n := asked.Load(); n != c.want {
					t.Errorf("asked %d times, not %d", n, c.want)
				}
			})
		}
	}
}
