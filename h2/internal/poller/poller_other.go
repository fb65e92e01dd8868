//go:build !linux

package poller

import (
	"syscall"
	"time"
)

// Poller accepts no connection on this system.
type Poller struct{}

// New returns a Poller.
func New(time.Duration) *Poller { return new(Poller) }

// Add reports false.
func (*Poller) Add(syscall.RawConn, time.Time, Waiter) (Key, bool) { return 0, false }

// Remove reports false.
func (*Poller) Remove(Key) bool { return false }

// Len returns 0.
func (*Poller) Len() int { return 0 }
