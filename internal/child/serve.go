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
		// An error is treated as the end of the input: in both cases the parent does not use this process any more.
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fmt.Println(l.Addr())
	return l, nil
}
