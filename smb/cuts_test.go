package smb_test

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// TestWritesAcrossCuts closes the connection while WRITEs are in flight: every WRITE is answered on the
// connections that replace it, and acknowledged data is on the server's disk. With TARN_LONG=1 it closes 120
// connections in each mode instead of six.
func TestWritesAcrossCuts(t *testing.T) {
	cuts := 6
	if os.Getenv("TARN_LONG") == "1" {
		cuts = 120
	}
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode, Share: durableShare()})
			var c cutter
			d := smb.Dialer{DialFunc: through(t, c.dial)}
			d.Limits.OperationTimeout = time.Minute // a WRITE without an answer fails
			share := mount(t, srv, d)
			const writers = 4
			written := make(chan struct{})
			var stop atomic.Bool
			var all sync.WaitGroup
			var lost atomic.Int32
			for i := range writers {
				all.Go(func() {
					lost.Add(int32(writeUntil(t, srv, share, "f"+strconv.Itoa(i), &stop, written)))
				})
			}
			done := make(chan struct{})
			go func() { all.Wait(); close(done) }()
			for n := 0; ; {
				select {
				case <-written: // one WRITE has an answer, the others are in flight
					if n++; n%8 == 0 && n/8 <= cuts {
						c.cut()
					}
					stop.Store(n/8 > cuts)
					continue
				case <-done:
				}
				break
			}
			t.Logf("%d connections; %d files did not survive the loss of theirs", c.made, lost.Load())
		})
	}
}

// writeUntil writes a file over and over, and opens it again when its handle was lost with its connection. It
// returns how often it did.
func writeUntil(t *testing.T, srv *rig.Server, share *smb.Share, name string, stop *atomic.Bool, written chan<- struct{}) (lost int) {
	want := random(1 << 20)
	f, err := share.Create(name)
	if err != nil {
		t.Error(err)
		return 0
	}
	for n := byte(0); !stop.Load() && !t.Failed(); n++ {
		want[int(n)*4096] = n
		_, err := f.WriteAt(want, 0)
		for errors.Is(err, smb.ErrHandleLost) {
			lost++
			f.Close()
			if f, err = share.OpenFile(name, os.O_RDWR, 0); err == nil {
				_, err = f.WriteAt(want, 0)
			}
		}
		if err != nil {
			t.Errorf("%s: write %d: %v", name, n, err)
			return lost
		}
		written <- struct{}{}
	}
	if err := f.Close(); err != nil && !errors.Is(err, smb.ErrHandleLost) {
		t.Error(err)
	}
	if !bytes.Equal(onDisk(t, srv, name), want) {
		t.Errorf("%s: the disk has other content", name)
	}
	return lost
}
