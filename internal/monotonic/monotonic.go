// Package monotonic measures how long ago something was, whatever is done to the system's clock meanwhile.
package monotonic

import (
	"sync/atomic"
	"time"
)

// epoch is what Stamps count from. Only differences matter.
var epoch = time.Now()

// Stamp is a time that is safe for concurrent use. A time.Time has three times its size, and its Unix time alone would change with the
// system's clock.
type Stamp struct{ at atomic.Int64 }

// Set makes the present time s.
func (s *Stamp) Set() { s.at.Store(int64(time.Since(epoch))) }

// Since returns how long ago s was set.
func (s *Stamp) Since() time.Duration { return time.Since(epoch) - time.Duration(s.at.Load()) }
