//go:build !linux

package h2

import (
	"net"
	"time"
)

func ackedBytes(net.Conn) (n uint64, others, ok bool) { return 0, false, false }

func shortestRTT(net.Conn) (time.Duration, bool) { return 0, false }
