package smb_test

import (
	"context"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
)

// FuzzConversation runs a complete conversation with a server whose messages are corrupted byte by byte. The
// first byte of the input chooses the kind of session and whether the corruption comes before or after
// signing or encryption; each further three bytes are a position in the server's output and the value to put
// there. Nothing may panic, hang or leak a buffer.
func FuzzConversation(f *testing.F) {
	kinds := []string{"plain", "signed/GMAC", "encrypted/GCM", "plain/2.0.2", "signed/HMAC", "encrypted/3.0"}
	f.Add([]byte{0})
	for kind := range byte(12) {
		for _, at := range []uint16{0, 4, 8, 12, 16, 20, 24, 40, 64, 66, 68, 130, 200, 300, 420, 500, 600, 700, 1100} {
			f.Add([]byte{kind, byte(at), byte(at >> 8), 0xff})
			f.Add([]byte{kind, byte(at), byte(at >> 8), 1, byte(at + 1), byte(at >> 8), 0x80})
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 || len(in) > 100 {
			return
		}
		s := protections()[kinds[int(in[0])%len(kinds)]]
		at := 0
		spoil := func(b []byte) {
			for i := 1; i+3 <= len(in); i += 3 {
				if off := int(le.Uint16(in[i:])) - at; off >= 0 && off < len(b) {
					b[off] = in[i+2]
				}
			}
			at += len(b)
		}
		if int(in[0]) < len(kinds) {
			s.Spoil = spoil
		} else {
			s.Mangle = func(frame []byte) []byte { spoil(frame); return frame }
		}
		d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, s.Dial), NoReconnect: true, Limits: smb.Limits{KeepAlive: -1}}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			converse(ctx, d)
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatal("hangs")
		}
	})
}
