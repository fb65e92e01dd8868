package smb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// BenchmarkReal reads a file in the server's page cache, one request after the other.
func BenchmarkReal(b *testing.B) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		srv := rigtest.Start(b, rig.Config{Mode: mode})
		const length = 64 << 20
		must(b, os.WriteFile(filepath.Join(srv.Dir, "big"), random(length), 0o666))
		must(b, os.Chmod(filepath.Join(srv.Dir, "big"), 0o666))
		share := mount(b, srv, smb.Dialer{Pool: tarn.Shared()})
		f, err := share.OpenFile("big", os.O_RDWR, 0)
		must(b, err)
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
			p := make([]byte, size)
			b.Run(fmt.Sprintf("%s/read/%d", mode.Name(), size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := f.ReadAt(p, int64(i*size%length)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s/write/%d", mode.Name(), size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := f.WriteAt(p, int64(i*size%length)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		f.Close()
	}
}
