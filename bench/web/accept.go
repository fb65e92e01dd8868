package main

import (
	"errors"
	"net"
)

// accepting returns run, which hands each connection of a listener to serve until serve fails or stop is called. serve
// owns the connection and returns at once.
func accepting(serve func(net.Conn) error) (run func(net.Listener) error, stop func()) {
	stopped := make(chan struct{})
	run = func(l net.Listener) error {
		go func() {
			<-stopped
			l.Close() // ends Accept
		}()
		for {
			nc, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := serve(nc); err != nil {
				return err
			}
		}
	}
	return run, func() { close(stopped) }
}
