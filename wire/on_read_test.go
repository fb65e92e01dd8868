package wire_test

import (
	"net"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

// OnRead's function is called with each piece, before the call that waits for all of them has returned.
func TestOnRead(t *testing.T) {
	forEach(t, func(t *testing.T, a, b net.Conn) {
		r := wire.NewReader(b, tarntest.NewPool(t))
		defer r.Release()
		const piece, pieces = 10_000, 5
		next := make(chan struct{}, 1)
		data := pattern(pieces * piece)
		got := make([]byte, len(data))
		go func() {
			for p := data; len(p) > 0; p = p[piece:] {
				a.Write(p[:piece])
				if len(p) > piece {
					<-next
				}
			}
		}()
		r.OnRead(func() {
			select {
			case next <- struct{}{}: // the next piece is sent only when this one was announced
			default:
			}
		})
		if n, err := r.ReadFull(got[:5]); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		if _, err := r.ReadFull(got[5:]); err != nil || string(got) != string(data) {
			t.Error("other bytes than sent:", err)
		}
	})
}
