package h2

import "time"

// limiter counts the work that a peer causes without use. Conn.mu protects it, or it is
// Run's own where only Run calls. Its methods report whether the peer is within its
// limits.
type limiter struct {
	lim       *Limits
	replies   int    // provoked and not yet taken for writing
	broken    bucket // streams that this side reset because of what the peer did
	givenUp   bucket // streams that the peer reset before their handlers started
	refused   bucket // streams that were not served though the peer kept to its limits
	delays    int    // how often reading was delayed because of those two, the last time at
	delayedAt instant
	waste     bucket // frames that carried nothing
	ping      instant
	strikes   uint8 // PINGs that came too early; the connection ends before there are many
	forgive   bool  // the next PING is not checked
}

func (l *limiter) init(lim *Limits) {
	l.lim = lim
	l.broken.level, l.givenUp.level, l.refused.level, l.waste.level = lim.Resets, lim.Resets, lim.Useless, lim.Useless
}

// countReply is called before a frame is queued that answers one of the peer's.
func (l *limiter) countReply() bool {
	l.replies++
	return l.replies <= l.lim.Replies
}

// countBroken is called for each stream that the peer has broken.
func (l *limiter) countBroken() bool { return l.broken.take(l.lim.Resets, brokenRate) }

// countGivenUp is called for each stream that the peer resets before its handler has started.
// Beyond the limit the connection is not ended but read more slowly. An attacker resets
// as fast as it can; but when this side gets no processor time, the requests of a client
// that gives calls up, and their resets, are read all at once later and look the same.
func (l *limiter) countGivenUp() bool {
	return l.givenUp.take(l.lim.Resets, givenUpRate)
}

// countRefused is called for each stream that this side does not serve although the peer has
// kept to the limits that it knows: handlers of earlier streams still run, say. Beyond
// the limit the connection is read more slowly, too.
func (l *limiter) countRefused() bool { return l.refused.take(l.lim.Useless, givenUpRate) }

// countDelay is called each time before reading is delayed.
func (l *limiter) countDelay(now instant) bool {
	if now.since(l.delayedAt) > delaysExpire {
		l.delays = 0
	}
	l.delayedAt = now
	l.delays++
	return l.delays <= delaysPerReset*l.lim.Resets
}

// noteCompleted is called for each stream that ended in order.
func (l *limiter) noteCompleted() {
	l.broken.level = min(l.broken.level+1, l.lim.Resets)
	l.givenUp.level = min(l.givenUp.level+1, l.lim.Resets)
}

// countUseless is called for each frame that carries nothing.
func (l *limiter) countUseless() bool { return l.waste.take(l.lim.Useless, wasteRate) }

// countWalked is called before a frame makes this side go through n streams, which counts
// like so many frames that carry nothing.
func (l *limiter) countWalked(n int) bool {
	for range n / streamsPerFrame {
		if !l.countUseless() {
			return false
		}
	}
	return true
}

// noteUseful is called for a frame that carries something: empty frames before it do not
// count any more.
func (l *limiter) noteUseful() { l.waste.level = l.lim.Useless }

// noteSent is called when this side sends HEADERS or DATA: empty frames and early PINGs
// before do not count any more.
func (l *limiter) noteSent() {
	l.waste.level = l.lim.Useless
	l.forgive = true
}

// countPing is called for each PING (gRPC's keepalive enforcement).
func (l *limiter) countPing(now instant, streams int, p PingPolicy) bool {
	if p.MinTime < 0 {
		return true
	}
	if l.forgive {
		l.ping, l.forgive, l.strikes = now, false, 0
		return true
	}
	gap := p.MinTime
	if streams == 0 && p.WithoutStream == Deny {
		gap = max(gap, 2*time.Hour)
	}
	early := l.ping != 0 && now.since(l.ping) < gap
	l.ping = now
	if early {
		l.strikes++
	}
	return l.strikes <= 2
}

// bucket is a token bucket that reads the clock only when it is empty.
type bucket struct {
	level int
	last  instant
}

// take takes a token out of a bucket for size of them.
func (b *bucket) take(size, rate int) bool {
	if b.level == 0 {
		t := now()
		if b.last != 0 {
			b.level = int(min(t.since(b.last).Seconds()*float64(rate), float64(size)))
		}
		if b.level == 0 {
			return false
		}
		b.last = t
	} else if b.level == size {
		b.last = now() // the bucket was full: tokens are added from now on
	}
	b.level--
	return true
}
