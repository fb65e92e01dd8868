package wire_test

import (
	"bytes"
	"net"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// TestLowWater reads long and short pieces in turn, each sent when the one before has been
// read: a reader whose low-water mark exceeds what comes would wait for ever.
func TestLowWater(t *testing.T) {
	forEach(t, func(t *testing.T, a, b net.Conn) {
		data := pattern(700_000)
		r := wire.NewReader(b, tarntest.NewPool(t))
		defer r.Release()
		r.SetLowWater(256 << 10)
		r.SetBusyLowWater(16 << 10)
		r.SetSizes(2<<10, 16<<10)
		r.SetTrust(len(data))
		got := make([]byte, len(data))
		for _, n := range []int{10, 300_000, 1, 700_000, 5000, 66_000, 84, 130_000} {
			go func() {
				for sent := 0; sent < n; sent += 30_000 {
					a.Write(data[sent:min(n, sent+30_000)])
				}
			}()
			if m, err := r.ReadFull(got[:n]); m != n || err != nil || !bytes.Equal(got[:n], data[:n]) {
				t.Fatal(n, m, err)
			}
		}
		go a.Write(data)
		x, err := r.Next(len(data))
		if err != nil || !bytes.Equal(x.Bytes(), data) {
			t.Fatal(err)
		}
		x.Free()
	})
}

// TestSizes holds that a Reader which cannot await readiness waits with a small buffer
// even after long reads.
func TestSizes(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	pool := tarntest.NewPool(t)
	r := wire.NewReader(b, pool)
	defer r.Release()
	r.SetSizes(512, 4<<10)
	go func() { a.Write(make([]byte, 100_000)); a.Write(make([]byte, 7)); a.Close() }()
	if _, err := r.ReadFull(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Peek(7); err != nil {
		t.Fatal(err)
	}
	if held := pool.Stats().InUse; held > 1<<10 {
		t.Fatalf("%d bytes held", held)
	}
	for _, bad := range [][2]int{{0, 1}, {2, 1}, {1, wire.MaxRead + 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Sizes%v did not panic", bad)
				}
			}()
			r.SetSizes(bad[0], bad[1])
		}()
	}
}
