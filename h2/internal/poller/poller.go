// Package poller waits for input on many idle connections with one goroutine, where package net needs a goroutine
// for each of them.
package poller

import (
	"sync"
	"time"
)

// Waiter is what waits for a connection's input.
type Waiter interface {
	// Ready is called once for each Add, unless Remove came first: a read of the connection would not wait, its time
	// has come, or other code has closed it. It is called by the Poller's goroutine and must not block.
	Ready()
}

// Key names what Add has added. The zero Key names nothing.
type Key uint64

// scanPeriod is how often a Poller looks for connections that other code has closed, which the system does not
// report.
const scanPeriod = time.Second

// Shared returns the process's Poller.
func Shared() *Poller { return shared() }

var shared = sync.OnceValue(func() *Poller { return New(scanPeriod) })
