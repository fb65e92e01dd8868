package rigtest

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// Relay returns a listener whose Dial connects with the server at addr, through links that can be disturbed, until the test ends.
func Relay(t testing.TB, addr string) *faultnet.Listener {
	l := faultnet.Listen(t, faultnet.TCP)
	relayed := make(chan struct{})
	go func() { defer close(relayed); relay(l, addr) }()
	t.Cleanup(func() { l.Close(); <-relayed })
	return l
}

// relay connects what l accepts with the server at addr, until l is closed and every connection has ended.
func relay(l net.Listener, addr string) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		accepted, err := l.Accept()
		if err != nil {
			return
		}
		dialed, err := net.Dial("tcp", addr)
		if err != nil {
			accepted.Close()
			continue
		}
		pass := func(dst, src net.Conn) {
			io.Copy(dst, src)
			dst.Close()
			src.Close()
		}
		all.Go(func() { pass(dialed, accepted) })
		all.Go(func() { pass(accepted, dialed) })
	}
}
