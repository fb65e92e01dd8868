// Package monotonic measures how long ago something was, whatever is done to the system's clock meanwhile.
package monotonic

import (
	"sync/atomic"
	"time"
)

// epoch is what Instants count from. Only differences matter.
var epoch = time.Now()

// Instant is a time, in nanoseconds since the program began. A time.Time has three times its size.
type Instant time.Duration

// Now returns the present time.
func Now() Instant { return Instant(time.Since(epoch)) }

// Since returns how long before i the time t was.
func (i Instant) Since(t Instant) time.Duration { return time.Duration(i - t) }

// Stamp is an Instant that is safe for concurrent use.
type Stamp struct{ at atomic.Int64 }

// Set makes the present time s.
func (s *Stamp) Set() { s.at.Store(int64(Now())) }

// Since returns how long ago s was set.
func (s *Stamp) Since() time.Duration { return Now().Since(Instant(s.at.Load())) }
