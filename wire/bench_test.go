package wire_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/wire"
)

// BenchmarkSwitchOver is what copyBelow was chosen by: a header and a payload sent
// by copy and by reference.
func BenchmarkSwitchOver(b *testing.B) {
	faultnet.NeedsTCP(b, "for sockets alone")
	for _, p := range pairs()[:2] {
		for _, n := range []int{512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10} {
			for _, below := range []int{1, 1 << 30} {
				how := "reference"
				if below > 1 {
					how = "copy"
				}
				b.Run(fmt.Sprintf("%s/%d/%s", p.name, n, how), func(b *testing.B) {
					x, y := p.make(b)
					go func() {
						q := make([]byte, 256<<10)
						for {
							if _, err := y.Read(q); err != nil {
								return
							}
						}
					}()
					w := wire.NewWriter(x, tarn.Shared())
					batch := w.NewBatch()
					batch.SetCopyBelow(below)
					b.SetBytes(int64(n))
					b.ReportAllocs()
					for b.Loop() {
						copy(batch.Space(14), "0123456789abcd")
						batch.Append(tarn.Shared().Get(n))
						if err := w.Send(batch); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkRead reads frames of one length as they come, beside reading them with
// io.ReadFull into fresh slices.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{100, 4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("next/%d", n), func(b *testing.B) {
			r, stop := source(b, n)
			defer stop()
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				f, err := r.Next(n)
				if err != nil {
					b.Fatal(err)
				}
				f.Free()
			}
		})
		b.Run(fmt.Sprintf("readfull/%d", n), func(b *testing.B) {
			r, stop := source(b, n)
			defer stop()
			dst := make([]byte, n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.ReadFull(dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func source(b *testing.B, n int) (*wire.Reader, func()) {
	x, y := listenPair("tcp", "127.0.0.1:0")(b)
	go func() {
		p := make([]byte, max(n, 256<<10))
		for {
			if _, err := x.Write(p); err != nil {
				return
			}
		}
	}()
	r := wire.NewReader(y, tarn.Shared())
	return r, func() { x.Close(); y.Close(); r.Release() }
}

var _ net.Conn = wrapped{}
