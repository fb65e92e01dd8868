package smb_test

import (
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestCloseLostBetweenLooks loses the connection while File.Close frees the read-ahead: after Close has found the
// connection alive, and before it sends CLOSE. The file with its durable handle is reopened and closed.
func TestCloseLostBetweenLooks(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, protection := range kinds() {
		t.Run(protection, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { closeLostBetweenLooks(t, protection) })
		})
	}
}

func closeLostBetweenLooks(t *testing.T, protection string) {
	s := protections()[protection]
	s.Size = 16 << 20
	var live *script.Conn
	var sent []proto.Command
	closing, lost := false, 0
	s.Hook = func(conn *script.Conn, m *script.Message) bool {
		live = conn
		if closing {
			sent = append(sent, m.Command)
		}
		if m.Command == proto.CommandCreate {
			conn.Opened(m, durableGrant(), func(b []byte) { b[2] = byte(proto.OplockBatch) })
			return true
		}
		return false
	}
	pool, err := tarn.NewPool(tarn.PoolConfig{
		HighWater: 1 << 20, LowWater: 1 << 19,
		OnWatermark: func(mark tarn.Watermark, _ int64) {
			if mark == tarn.BelowLow && closing {
				lost++
				live.Close()
				synctest.Wait() // until the client has noticed
			}
		},
	})
	must(t, err)
	d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, s.Dial), Pool: pool, Limits: smb.Limits{KeepAlive: -1}}
	sess, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	share, err := sess.Mount(t.Context(), "share")
	must(t, err)
	f, err := share.Open("file")
	must(t, err)
	for range 16 {
		_, err := io.ReadFull(struct{ io.Reader }{f}, make([]byte, 128<<10))
		must(t, err)
	}
	synctest.Wait() // until the read-ahead has arrived
	if n := pool.Stats().InUse; n < 1<<20 {
		t.Fatalf("%d bytes of read-ahead", n)
	}
	closing = true
	if err := f.Close(); err != nil {
		t.Error("Close: ", err)
	}
	closing = false
	want := []proto.Command{
		proto.CommandNegotiate, proto.CommandSessionSetup, proto.CommandTreeConnect, proto.CommandCreate, proto.CommandClose,
	}
	if lost != 1 || !slices.Equal(sent, want) {
		t.Errorf("%d connections lost, then sent: %v", lost, sent)
	}
	must(t, sess.Close())
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}
