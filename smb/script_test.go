package smb_test

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// fixedKey logs in to scripted servers.
type fixedKey struct{}

func (fixedKey) Start(context.Context, string) (smb.SecurityContext, error) {
	return script.Start(), nil
}

// scripted dials a scripted server and opens its file. Unless d requires signing, s decides whether messages are signed.
func scripted(t testing.TB, s *script.Server, d smb.Dialer) (*smb.File, error) {
	t.Helper()
	d.Initiator = fixedKey{}
	if d.DialFunc == nil {
		d.DialFunc = through(t, s.Dial)
	}
	d.NoDurable, d.AllowUnsigned = true, !d.RequireSigning
	if d.Pool == nil {
		d.Pool = newPool(t)
	}
	d.Limits.KeepAlive = -1
	sess, err := d.Dial(context.Background(), "scripted")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { sess.Close() })
	share, err := sess.Mount(context.Background(), "share")
	if err != nil {
		return nil, err
	}
	return share.Open("file")
}

// protections are the scripted servers, one for each kind of protection.
func protections() map[string]*script.Server {
	return map[string]*script.Server{
		"plain":             {},
		"signed/GMAC":       {Signed: true, Signing: proto.SigningAESGMAC},
		"signed/CMAC":       {Signed: true, Signing: proto.SigningAESCMAC},
		"signed/HMAC":       {Signed: true, Dialect: proto.Dialect210},
		"encrypted/GCM":     {Sealed: true, Cipher: proto.CipherAES128GCM},
		"encrypted/CCM":     {Sealed: true, Cipher: proto.CipherAES128CCM},
		"encrypted/256GCM":  {Sealed: true, Cipher: proto.CipherAES256GCM},
		"encrypted/3.0":     {Sealed: true, Cipher: proto.CipherAES128CCM, Dialect: proto.Dialect300},
		"plain/2.0.2":       {Dialect: proto.Dialect202, MaxIO: 65536},
		"plain/one credit":  {Grant: func(uint16) uint16 { return 1 }},
		"signed/one credit": {Signed: true, Grant: func(uint16) uint16 { return 1 }},
		"encrypted/one credit": {
			Sealed: true, Cipher: proto.CipherAES128GCM, Grant: func(uint16) uint16 { return 1 },
		},
	}
}

// eachKind runs use with a scripted server of each kind.
func eachKind(t *testing.T, use func(t *testing.T, s *script.Server)) {
	t.Helper()
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) { use(t, protections()[kind]) })
	}
}

// eachMode runs use with a Samba server of each mode; with -short of one, whose sessions are signed, as they are by default.
func eachMode(t *testing.T, cfg rig.Config, use func(t *testing.T, srv *rig.Server)) {
	t.Helper()
	all := modes()
	if testing.Short() {
		all = []rig.Mode{rig.Signed}
	}
	for _, mode := range all {
		cfg.Mode = mode
		t.Run(mode.Name(), func(t *testing.T) { use(t, rigtest.Start(t, cfg)) })
	}
}

// withoutDetector leaves a test that makes thousands of calls one after the other to builds without the race detector.
func withoutDetector(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("one call at a time, too many for the race detector")
	}
}

func checkRead(t testing.TB, f *smb.File, n int, off int64) {
	t.Helper()
	p := make([]byte, n)
	if m, err := f.ReadAt(p, off); m != n || err != nil {
		t.Fatalf("ReadAt(%d, %d) = %d, %v", n, off, m, err)
	}
	for i, b := range p {
		if b != script.At(off+int64(i)) {
			t.Fatalf("wrong byte at %d", off+int64(i))
		}
	}
}

func TestScripted(t *testing.T) {
	for name, s := range protections() {
		t.Run(name, func(t *testing.T) {
			f, err := scripted(t, s, smb.Dialer{})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 1000, 4096, 65536, 1 << 20, 5 << 20} {
				checkRead(t, f, n, 12345)
				if m, err := f.WriteAt(make([]byte, n), 0); m != n || err != nil {
					t.Fatal(m, err)
				}
			}
			if _, err := f.ReadAt(make([]byte, 10), 1<<30-3); err != io.EOF {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// ReadAt and WriteAt allocate nothing in steady state.
func TestAllocations(t *testing.T) {
	faultnet.NeedsTCP(t, "the relay allocates")
	if raceEnabled {
		t.Log("the race detector allocates: asserted in runs without it")
		return
	}
	for _, name := range []string{"plain", "signed/GMAC", "signed/CMAC", "signed/HMAC", "encrypted/GCM", "encrypted/256GCM", "encrypted/CCM"} {
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 4 << 20} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				pool, err := tarn.NewPool(tarn.PoolConfig{Check: tarn.CheckOff})
				if err != nil {
					t.Fatal(err)
				}
				f, err := scripted(t, protections()[name], smb.Dialer{Pool: pool})
				if err != nil {
					t.Fatal(err)
				}
				defer debug.SetGCPercent(debug.SetGCPercent(-1)) // allocations of other pools at a collection are not counted
				p := make([]byte, size)
				for range 5 { // fill the pool
					f.ReadAt(p, 0)
					f.WriteAt(p, 0)
				}
				if n := allocations(func() { f.ReadAt(p, 0) }); n > 0 {
					t.Errorf("ReadAt: %v allocations", n)
				}
				if n := allocations(func() { f.WriteAt(p, 0) }); n > 0 {
					t.Errorf("WriteAt: %v allocations", n)
				}
			})
		}
	}
}

// allocations is the smallest average number of allocations of op over ten runs: the runtime counts those of
// the whole process, timers of other tests' pools included.
func allocations(op func()) float64 {
	least := testing.AllocsPerRun(10, op)
	for range 20 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(10, op))
	}
	return least
}

func BenchmarkReadAt(b *testing.B) {
	for _, name := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				f, err := scripted(b, protections()[name], smb.Dialer{Pool: tarn.Shared()})
				if err != nil {
					b.Fatal(err)
				}
				p := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := f.ReadAt(p, 0); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
