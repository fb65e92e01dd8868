package h2

import (
	"io"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// TestMovedWhileThePeerReads: a peer whose program reads moves, with what is sent and not taken left over; one whose program has stopped does not.
func TestMovedWhileThePeerReads(t *testing.T) {
	for name, wiring := range map[string]wiring{
		"plain":   func(t testing.TB) (net.Conn, net.Conn) { return faultnet.Dialed(t) },
		"tls":     tlsWiring,
		"wrapped": wrappedWiring,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := wiring(t)
			defer a.Close()
			defer b.Close()
			m, err := Servers(Config{})
			if err != nil {
				t.Fatal(err)
			}
			c := m.Make(b, answering{})
			first := make(chan struct{}) // also ends a handshake
			go func() { io.ReadFull(a, make([]byte, 1)); close(first) }()
			b.Write([]byte{0})
			<-first
			read, written, stop := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(written)
				for {
					if _, err := b.Write(make([]byte, 64<<10)); err != nil {
						return
					}
				}
			}()
			go func() {
				defer close(read)
				for p := make([]byte, 16<<10); ; {
					select {
					case <-stop:
						return
					default:
						a.Read(p)
					}
				}
			}()
			eventually(t, "movement", c.noteAcked, func() any { return nil })
			close(stop)
			<-read
			// The systems move some bytes between their buffers yet.
			eventually(t, "standstill", func() bool { return !c.noteAcked() }, func() any { return nil })
			b.Close()
			<-written
		})
	}
}
