// Package monotonic measures how long ago something was, whatever is done to the system's clock meanwhile.
package monotonic

import (
	"sync/atomic"
	"time"
)

// epoch is what Instants count from: a hundred years ago, so that they are above 0 also by the clock of testing/synctest, which begins in 2000.
var epoch = time.Now().Add(-100 * 365 * 24 * time.Hour)

// Instant is a time, in nanoseconds after one that precedes every Instant: it is above 0, and only differences mean something. A time.Time
// has three times its size.
type Instant time.Duration

// Now returns the present time.
func Now() Instant { return Instant(time.Since(epoch)) }

// Of returns t, which has a monotonic clock reading.
func Of(t time.Time) Instant { return Instant(t.Sub(epoch)) }

// Since returns how long before i the time t was.
func (i Instant) Since(t Instant) time.Duration { return time.Duration(i - t) }

// Stamp is an Instant that is safe for concurrent use.
type Stamp struct{ at atomic.Int64 }

// Set makes the present time s.
func (s *Stamp) Set() { s.at.Store(int64(Now())) }

// Since returns how long ago s was set.
func (s *Stamp) Since() time.Duration { return Now().Since(Instant(s.at.Load())) }
