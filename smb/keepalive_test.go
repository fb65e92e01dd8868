package smb_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestKeepAlive uses a server that answers no ECHO, with fake time. The connection stays while other frames arrive, and is
// closed when none has arrived for two periods.
func TestKeepAlive(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			var echoes atomic.Int32
			s := protections()[kind]
			s.Hook = func(_ *script.Conn, m *script.Message) bool {
				if m.Command == proto.CommandEcho {
					echoes.Add(1)
					return true
				}
				return false
			}
			synctest.Test(t, func(t *testing.T) {
				const period = smb.DefaultKeepAlive
				d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, s.Dial), Pool: newPool(t), NoReconnect: true}
				sess, err := d.Dial(t.Context(), "scripted")
				must(t, err)
				defer sess.Close()
				share, err := sess.Mount(t.Context(), "share")
				must(t, err)
				for n := range 10 {
					<-time.After(period * 5 / 4) // an ECHO is sent meanwhile
					if _, err := share.Stat("file"); err != nil {
						t.Fatalf("call %d: %v", n, err)
					}
				}
				if echoes.Load() == 0 {
					t.Error("no ECHO was sent")
				}
				<-time.After(2*period + time.Second)
				if _, err := share.Stat("file"); !errors.Is(err, smb.ErrConnLost) {
					t.Errorf("after two periods without a frame: %v", err)
				}
			})
		})
	}
}
