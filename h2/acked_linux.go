package h2

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// ackedBytes returns how many bytes the peer's system has acknowledged on nc, and whether the system here holds others that it
// has not. It reports false where nc is no TCP connection, nor TLS or another wrapper of one.
func ackedBytes(nc net.Conn) (n uint64, others, ok bool) {
	if upper, wraps := nc.(interface{ NetConn() net.Conn }); wraps {
		nc = upper.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return 0, false, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, false, false
	}
	var info *unix.TCPInfo
	if raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil || err != nil {
		return 0, false, false
	}
	return info.Bytes_acked, info.Unacked > 0 || info.Notsent_bytes > 0, true
}
