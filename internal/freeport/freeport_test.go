package freeport_test

import (
	"context"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/freeport"
)

func TestReserve(t *testing.T) {
	p, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	// One after the other, so that the system chooses among all free ports each time.
	for range 300 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if l.Addr().String() == p.Addr() {
			t.Fatalf("%s was given to another listener", p.Addr())
		}
	}
	if nc, err := net.Dial("tcp", p.Addr()); err == nil {
		nc.Close()
		t.Error("the reservation accepts connections")
	}
	// More than once: servers are stopped and started again on the same port.
	for range 3 {
		l, err := net.Listen("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan error, 1)
		go func() {
			nc, err := l.Accept()
			if err == nil {
				nc.Close()
			}
			accepted <- err
		}()
		nc, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		if err := <-accepted; err != nil {
			t.Error(err)
		}
		l.Close()
	}
}

func TestAwait(t *testing.T) {
	p, err := freeport.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := freeport.Await(ended, p.Addr()); err == nil {
		t.Error("Await found a listener at a reserved port")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := freeport.Await(t.Context(), l.Addr().String()); err != nil {
		t.Error(err)
	}
}
