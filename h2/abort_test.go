package h2

import (
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/tarntest"
)

// lingering waits for five seconds before it closes the connection below it, as crypto/tls
// does for a full socket, unless that one is closed meanwhile.
type lingering struct{ below }

func (l lingering) Close() error {
	select {
	case <-l.closed:
	case <-time.After(5 * time.Second):
	}
	return l.below.Close()
}

// reachable is lingering whose connection below can be closed, as that of crypto/tls.
type reachable struct{ lingering }

func (r reachable) NetConn() net.Conn { return r.below }

// below is the connection below.
type below struct {
	net.Conn
	once   *sync.Once
	closed chan struct{}
}

func (b below) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Conn.Close()
}

// TestAbortOfALingeringConnection aborts a connection whose peer reads the GOAWAY and nothing
// after it: Run ends within the times to abort and to close, whatever Close waits for.
func TestAbortOfALingeringConnection(t *testing.T) {
	for name, wrap := range map[string]func(below) net.Conn{
		"reachable": func(b below) net.Conn { return reachable{lingering{b}} },
		"wrapped":   func(b below) net.Conn { return lingering{b} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				nc := below{b, new(sync.Once), make(chan struct{})}
				s, err := NewServer(wrap(nc), new(neverStarted), Config{Pool: tarntest.NewPool(t)})
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan time.Time, 1)
				go func() {
					s.Run()
					ended <- time.Now()
				}()
				r := newRaw(t, a)
				go func() {
					io.WriteString(a, Preface)
					r.fr.WriteSettings()
				}()
				until := func(is func(http2.Frame) bool) {
					for {
						f, err := r.fr.ReadFrame()
						if err != nil {
							t.Fatal(err)
						}
						if is(f) {
							return
						}
					}
				}
				until(func(f http2.Frame) bool { s, ok := f.(*http2.SettingsFrame); return ok && s.IsAck() })
				begun := time.Now()
				s.Abort(NoError, "")
				until(func(f http2.Frame) bool { _, ok := f.(*http2.GoAwayFrame); return ok })
				if d := (<-ended).Sub(begun); d > 2*abortTimeout {
					t.Errorf("Run ended after %v", d)
				}
				nc.Close()
				a.Close()
			})
		})
	}
}
