package smb_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestBreakFlood has a server break the oplock of one file again and again, without answering the acknowledgements or granting
// credits for them. The client keeps few of them, and ends the connection in the end.
func TestBreakFlood(t *testing.T) {
	const breaks = 60_000
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			var most atomic.Int64 // goroutines
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch m.Command {
				case proto.CommandCreate:
					c.Opened(m, durableGrant(), func(b []byte) { b[2] = byte(proto.OplockBatch) })
					return true
				case proto.CommandOplockBreak:
					return true // not answered
				case proto.CommandRead:
					note := make([]byte, 24)
					note[0], note[8], note[16] = 24, 1, 2 // the FileId that the scripted server gives to every file
					frame := forgedFrame(proto.Header{Command: proto.CommandOplockBreak, MessageID: proto.UnsolicitedMessageID}, note...)
					for range breaks {
						if c.Raw(frame) != nil {
							break
						}
						most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
					}
					return true
				}
				return false
			}
			d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, s.Dial), Pool: newPool(t), NoReconnect: true, Limits: smb.Limits{KeepAlive: -1}}
			sess, err := d.Dial(t.Context(), "scripted")
			must(t, err)
			defer sess.Close()
			share, err := sess.Mount(t.Context(), "share")
			must(t, err)
			f, err := share.Open("file")
			must(t, err)
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = f.WithContext(ctx).ReadAt(make([]byte, 1), 0)
			if !errors.Is(err, smb.ErrProtocol) {
				t.Error(err)
			}
			if n := int(most.Load()); n > before+20 {
				t.Errorf("%d goroutines, %d before", n, before)
			}
		})
	}
}
