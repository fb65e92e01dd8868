package h2

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/tarntest"
)

// TestCloseAgainPutsNothingOff: a connection whose peer takes nothing ends abortTimeout after the first Close, however often Close and
// Abort are called meanwhile.
func TestCloseAgainPutsNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		toServer(t, a, b, new(neverStarted), Config{Pool: tarntest.NewPool(t)}, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings()
			synctest.Wait()
			begun := time.Now()
			for range 100 {
				s.Close()
				s.Abort(InternalError, "again")
				select {
				case <-s.Done():
					if d := time.Since(begun); d > 2*abortTimeout { // the second for closing the socket
						t.Errorf("ended after %v", d)
					}
					if err := s.Err(); err != ErrClosed {
						t.Errorf("ended with %v, not the first reason", err)
					}
					return
				case <-time.After(abortTimeout / 5):
				}
			}
			t.Error("it has not ended")
		})
	})
}

// TestNothingIsServedBeyondGoAway: a server that has sent its last GOAWAY, by Close or Abort, serves no stream beyond the last that this
// names: its client may repeat those elsewhere.
func TestNothingIsServedBeyondGoAway(t *testing.T) {
	for name, end := range map[string]func(*Conn){
		"close": func(c *Conn) { c.Close() },
		"abort": func(c *Conn) { c.Abort(InternalError, "") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := bufferedPipe()
				h := make(keepsStreams, 2)
				toServer(t, a, b, h, Config{Pool: tarntest.NewPool(t)}, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
					io.WriteString(a, Preface)
					r.fr.WriteSettings()
					r.request(1, More)
					synctest.Wait()
					end(s)
					r.request(3, End)
					<-s.Done()
					(<-h).Release()
					select {
					case late := <-h:
						late.Release()
						t.Errorf("stream %d was served", late.ID())
					default:
					}
				})
			})
		})
	}
}
