package wire

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnsent also reaches the socket of a wrapper that is a syscall.Conn, which grpc-go's TLS credentials make.
func limitUnsent(conn net.Conn, n int) {
	sc, ok := plain(conn).(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n) // other sockets have none
	})
}
