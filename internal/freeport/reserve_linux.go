package freeport

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reserve binds a socket that never listens: it is sent no connections, and the port counts as taken.
func reserve() (number int, release func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	bound, nameErr := unix.Getsockname(fd)
	if err = errors.Join(err, nameErr); err != nil {
		unix.Close(fd)
		return 0, nil, err
	}
	return bound.(*unix.SockaddrInet4).Port, func() { unix.Close(fd) }, nil
}
