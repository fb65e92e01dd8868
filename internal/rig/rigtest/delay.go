package rigtest

import (
	"io"
	"net"
	"testing"
	"time"
)

// Delay returns the address of a proxy to addr that delays all data by the given time, each way, and otherwise does not limit how
// much is in flight, until the test ends.
func Delay(b testing.TB, addr string, each time.Duration) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				client.Close()
				continue
			}
			go hold(server, client, each)
			go hold(client, server, each)
		}
	}()
	return l.Addr().String()
}

// piece is what came at one time.
type piece struct {
	data []byte
	due  time.Time
}

// hold copies src to dst, each piece delayed.
func hold(dst, src net.Conn, each time.Duration) {
	way := make(chan piece, 1<<12)
	spare := make(chan []byte, 1<<12)
	go func() {
		defer close(way)
		for {
			var buf []byte
			select {
			case buf = <-spare:
			default:
				buf = make([]byte, 128<<10)
			}
			n, err := src.Read(buf)
			if n > 0 {
				way <- piece{buf[:n], time.Now().Add(each)}
			}
			if err != nil {
				return
			}
		}
	}()
	defer dst.Close()
	defer src.Close()
	broken := false
	for p := range way {
		if wait := time.Until(p.due); wait > 0 {
			<-time.After(wait)
		}
		if !broken {
			if _, err := dst.Write(p.data); err != nil && err != io.EOF {
				broken = true
				src.Close()
			}
		}
		select {
		case spare <- p.data[:cap(p.data)]:
		default:
		}
	}
}
