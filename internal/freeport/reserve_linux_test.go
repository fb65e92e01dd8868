package freeport_test

import (
	"context"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarn-go/tarn/internal/freeport"
)

// TestReserved: the port counts as taken for whom it is not meant, and is free again after Release.
func TestReserved(t *testing.T) {
	p, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	exclusive := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errorsOf(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 0) }), err)
	}}
	if l, err := exclusive.Listen(context.Background(), "tcp", p.Addr()); err == nil {
		l.Close()
		t.Error("the port is not reserved")
	}
	p.Release()
	l, err := exclusive.Listen(context.Background(), "tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
