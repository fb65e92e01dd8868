package h2

import "time"

// guard counts the work that a peer causes without use. It is guarded by Conn.mu, or
// Run's own where only Run calls. Its methods report whether the peer is within its
// limits.
type guard struct {
	lim     *Limits
	replies int    // provoked and not yet taken for writing
	broken  bucket // streams that this side reset because of what the peer did
	givenUp bucket // streams that the peer reset before their handlers started
	refused bucket // streams that were not served though the peer kept to its limits
	holds   int    // how often reading was held back because of those two, the last time at
	heldAt  time.Time
	waste   bucket // frames that carried nothing
	strikes int    // PINGs that came too early
	forgive bool   // the next PING is not checked
	ping    time.Time
}

// How many tokens a second are added to an empty bucket.
const (
	brokenRate  = 500
	givenUpRate = 5000
	wasteRate   = 100
	// streamsPerFrame is how many streams count like one frame.
	streamsPerFrame = 32
)

func (g *guard) init(lim *Limits) {
	g.lim = lim
	g.broken.level, g.givenUp.level, g.refused.level, g.waste.level = lim.Resets, lim.Resets, lim.Useless, lim.Useless
}

// reply is called before a frame is queued that answers one of the peer's.
func (g *guard) reply() bool {
	g.replies++
	return g.replies <= g.lim.Replies
}

// broke is called for each stream that the peer has broken.
func (g *guard) broke() bool { return g.broken.take(g.lim.Resets, brokenRate) }

// gaveUp is called for each stream that the peer resets before its handler has started.
// Beyond the limit the connection is not ended but read more slowly. An attacker resets
// as fast as it can; but when this side gets no processor time, the requests of a client
// that gives calls up, and their resets, are read all at once later and look the same.
func (g *guard) gaveUp() bool {
	return g.givenUp.take(g.lim.Resets, givenUpRate)
}

// refuse is called for each stream that this side does not serve although the peer has
// kept to the limits that it knows: handlers of earlier streams still run, say. Beyond
// the limit the connection is read more slowly, too.
func (g *guard) refuse() bool { return g.refused.take(g.lim.Useless, givenUpRate) }

const (
	// holdTime is how long reading is held back each time, which givenUpRate makes
	// 50 streams.
	holdTime = 10 * time.Millisecond
	// holdsPerReset times Limits.Resets is how often that happens before the connection
	// ends: 20 seconds by default.
	holdsPerReset = 2
	// holdsOver is the time without any after which they do not count any more.
	holdsOver = time.Second
)

// held is called each time before reading is held back.
func (g *guard) held(now time.Time) bool {
	if now.Sub(g.heldAt) > holdsOver {
		g.holds = 0
	}
	g.heldAt = now
	g.holds++
	return g.holds <= holdsPerReset*g.lim.Resets
}

// finished is called for each stream that ended in order.
func (g *guard) finished() {
	g.broken.level = min(g.broken.level+1, g.lim.Resets)
	g.givenUp.level = min(g.givenUp.level+1, g.lim.Resets)
}

// empty is called for each frame that carries nothing.
func (g *guard) empty() bool { return g.waste.take(g.lim.Useless, wasteRate) }

// walked is called before a frame makes this side go through n streams, which counts
// like so many frames that carry nothing.
func (g *guard) walked(n int) bool {
	for range n / streamsPerFrame {
		if !g.empty() {
			return false
		}
	}
	return true
}

// useful is called for a frame that carries something: empty frames before it do not
// count any more.
func (g *guard) useful() { g.waste.level = g.lim.Useless }

// wrote is called when this side sends HEADERS or DATA: empty frames and early PINGs
// before do not count any more.
func (g *guard) wrote() {
	g.waste.level = g.lim.Useless
	g.forgive = true
}

// pinged is called for each PING (gRPC's keepalive enforcement).
func (g *guard) pinged(now time.Time, streams int, p PingPolicy) bool {
	if p.MinTime < 0 {
		return true
	}
	if g.forgive {
		g.ping, g.forgive, g.strikes = now, false, 0
		return true
	}
	gap := p.MinTime
	if streams == 0 && p.WithoutCall == Deny {
		gap = max(gap, 2*time.Hour)
	}
	early := !g.ping.IsZero() && now.Sub(g.ping) < gap
	g.ping = now
	if early {
		g.strikes++
	}
	return g.strikes <= 2
}

// bucket is a token bucket that reads the clock only when it is empty.
type bucket struct {
	level int
	last  time.Time
}

// take takes a token out of a bucket for size of them.
func (b *bucket) take(size, rate int) bool {
	if b.level == 0 {
		now := time.Now()
		if !b.last.IsZero() {
			b.level = int(min(now.Sub(b.last).Seconds()*float64(rate), float64(size)))
		}
		if b.level == 0 {
			return false
		}
		b.last = now
	} else if b.level == size {
		b.last = time.Now() // the bucket was full: tokens are added from now on
	}
	b.level--
	return true
}
