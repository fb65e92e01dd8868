package child

import (
	"fmt"
	"io"
	"net"
	"os"
)

// Listen is the child's side of Start: it listens on the loopback interface, prints the address, and calls
// stop when standard input ends.
func Listen(stop func()) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		// Whatever ends the input, its reader has gone.
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Println(l.Addr())
	return l, nil
}
