package h2

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// landing is a handler that receives DATA in memory of its own.
type landing struct{ neverStarted }

func (*landing) Land(*Stream, int) []byte                  { return make([]byte, 1<<10) }
func (*landing) Landed(*Stream, int, Ending)               {}
func (*landing) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }

// TestKeepaliveDuringALongFrame: keepalive does not end a connection while parts of a DATA frame arrive, whatever receives
// them.
func TestKeepaliveDuringALongFrame(t *testing.T) {
	for _, x := range []struct {
		name    string
		handler Handler
		stream  uint32 // of the DATA
		padding byte
	}{
		{"delivered", new(neverStarted), 1, 0},
		{"landed", new(landing), 1, 0},
		{"padded", new(neverStarted), 1, 255},
		{"of a stream that was reset", new(neverStarted), 3, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := bufferedPipe()
				cfg := Config{Pool: tarntest.NewPool(t), Keepalive: Keepalive{Time: 10 * time.Second, Timeout: 5 * time.Second}}
				toServer(t, a, b, x.handler, cfg, func(t *testing.T, m *Maker, s *Conn, r *raw) {
					io.WriteString(a, Preface)
					r.fr.WriteSettings()
					go r.listen()
					r.request(1, More)
					r.request(3, More)
					r.fr.WriteRSTStream(3, http2.ErrCodeCancel)
					const size = 256 << 10
					var header [frameHeaderLen + 1]byte
					f := frame{typ: frameData, length: size, id: x.stream}
					if x.padding > 0 {
						f.flags |= flagPadded
					}
					putFrame(header[:], f)
					header[frameHeaderLen] = x.padding
					a.Write(header[:])
					for range 60 {
						<-time.After(time.Second)
						a.Write(make([]byte, (size-1)/60))
					}
					synctest.Wait()
					if err := s.Err(); err != nil {
						t.Fatalf("the connection ended although a minute's frame was arriving: %v", err)
					}
					<-time.After(16 * time.Second) // now nothing more comes
					<-s.Done()
					if n := m.Stats().KeepaliveTimeouts; n != 1 {
						t.Errorf("%d timeouts at the end, %v", n, s.Err())
					}
				})
			})
		})
	}
}
