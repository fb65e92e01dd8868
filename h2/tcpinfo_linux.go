package h2

import (
	"math"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ackedBytes returns how many bytes the peer's system has acknowledged on nc, and whether the system here holds others that it
// has not. It reports false where nc is no TCP connection, nor TLS or another wrapper of one.
func ackedBytes(nc net.Conn) (n uint64, others, ok bool) {
	info := tcpInfo(nc)
	if info == nil {
		return 0, false, false
	}
	return info.Bytes_acked, info.Unacked > 0 || info.Notsent_bytes > 0, true
}

// shortestRTT returns the shortest round trip that the systems have measured on nc in the last minutes, without the time for which programs
// were busy. It reports false where ackedBytes does.
func shortestRTT(nc net.Conn) (time.Duration, bool) {
	info := tcpInfo(nc)
	if info == nil || info.Min_rtt == math.MaxUint32 { // none yet
		return 0, false
	}
	return time.Duration(info.Min_rtt) * time.Microsecond, true
}

// tcpInfo returns what the system knows of nc; nil: nc is no TCP connection, nor TLS or another wrapper of one.
func tcpInfo(nc net.Conn) *unix.TCPInfo {
	if upper, wraps := nc.(interface{ NetConn() net.Conn }); wraps {
		nc = upper.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	var info *unix.TCPInfo
	if raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) != nil || err != nil {
		return nil
	}
	return info
}
