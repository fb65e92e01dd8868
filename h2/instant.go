package h2

import "time"

// instant is a time by the monotonic clock, in nanoseconds after epoch; 0: never. A time.Time has three times its size, and
// each connection has several.
type instant int64

// epoch precedes every instant.
var epoch = time.Now().Add(-1)

func now() instant { return instant(time.Since(epoch)) }

func instantOf(t time.Time) instant { return instant(t.Sub(epoch)) }

// since is the time from earlier to i.
func (i instant) since(earlier instant) time.Duration { return time.Duration(i - earlier) }

// time returns i as a time.Time.
func (i instant) time() time.Time { return epoch.Add(time.Duration(i)) }
