package smb_test

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestHostileMemory sends malformed replies, some of which announce up to 2 GiB, and a file length of 2^63-1, and counts the bytes that are
// allocated meanwhile: at most 4 MiB during a call of 1,000 bytes, server and test included, and at most 12 MiB during ReadFile, which
// allocates at most 8 MiB because of the length that the server reports.
func TestHostileMemory(t *testing.T) {
	for _, kind := range kinds() {
		for _, l := range lies() {
			t.Run(kind+"/"+l.name, func(t *testing.T) {
				s := protections()[kind]
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					if m.Command != proto.CommandRead {
						return false
					}
					l.tell(c, m)
					return true
				}
				pool := newPool(t)
				n := leastAllocated(t, 4<<20, func() func() {
					f, err := scripted(t, s, smb.Dialer{Pool: pool})
					must(t, err)
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					p := make([]byte, 1000)
					return func() { f.WithContext(ctx).ReadAt(p, 0); cancel() }
				})
				if n > 4<<20 {
					t.Errorf("%d bytes were allocated", n)
				}
				if peak := pool.Stats().Peak; peak > 1<<20 {
					t.Errorf("%d bytes of the pool were in use", peak)
				}
			})
		}
		t.Run(kind+"/a length of 2^63-1", func(t *testing.T) {
			s := protections()[kind]
			s.Size = 1000
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				if m.Command != proto.CommandCreate {
					return false
				}
				c.Opened(m, nil, func(b []byte) { le.PutUint64(b[48:], math.MaxInt64) })
				return true
			}
			pool := newPool(t)
			n := leastAllocated(t, 12<<20, func() func() {
				f, err := scripted(t, s, smb.Dialer{Pool: pool})
				must(t, err)
				checkRead(t, f, 1, 0) // the server makes its content
				return func() {
					if b, err := f.Share().ReadFile("big"); len(b) != 1000 || err != nil {
						t.Errorf("%d bytes, %v", len(b), err)
					}
				}
			})
			if n > 12<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
			if peak := pool.Stats().Peak; peak > 1<<20 {
				t.Errorf("%d bytes of the pool were in use", peak)
			}
		})
	}
}

// leastAllocated is how many bytes the process allocates while what prepare returns runs: in the first run with at most enough, or
// the least of ten, as what remains of other tests may allocate, too.
func leastAllocated(t *testing.T, enough uint64, prepare func() func()) uint64 {
	t.Helper()
	least := uint64(math.MaxUint64)
	for range 10 {
		use := prepare()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		use()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= enough {
			break
		}
	}
	return least
}
