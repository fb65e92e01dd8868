// Package freeport reserves TCP ports of the loopback interface for servers that tests and benchmarks start
// as processes.
//
// The port of a listener that is closed again is free, too, but until the server has bound it, the system may
// give it to another process. Two Samba servers then even share it (they set SO_REUSEPORT), and each
// is sent some of the other's connections.
package freeport

import (
	"context"
	"net"
	"strconv"
	"time"
)

// Port is a port that belongs to the caller until Release.
type Port struct {
	number  int
	release func()
}

// Reserve reserves a free port. The system does not give it to a program that asks for any free port; on Linux a
// program that asks for this one, and sets SO_REUSEADDR, can listen on it. The caller must call Release
// when that program has ended. Where the system has no such reservations the port is only free now.
func Reserve() (*Port, error) {
	number, release, err := reserve()
	if err != nil {
		return nil, err
	}
	return &Port{number: number, release: release}, nil
}

// Number returns the port's number.
func (p *Port) Number() int { return p.number }

// Addr returns the port's address, 127.0.0.1 with its number.
func (p *Port) Addr() string { return "127.0.0.1:" + strconv.Itoa(p.number) }

// Release ends the reservation. It must be called once.
func (p *Port) Release() { p.release() }

// Await waits until a server listens at addr, for those that do not say in another way that they are ready. It
// fails with the last attempt's error when ctx ends.
func Await(ctx context.Context, addr string) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return err
		}
	}
}
