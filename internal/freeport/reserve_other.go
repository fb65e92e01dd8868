//go:build !linux

package freeport

import "net"

// reserve returns a port that was free a moment ago.
func reserve() (number int, release func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, func() {}, nil
}
