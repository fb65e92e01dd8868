package h2

// recentMax is how many streams that this side reset are remembered.
const recentMax = 1024

// recent remembers streams that this side reset lately, the oldest going first: the
// peer may have sent frames for them before it knew (RFC 9113 section 5.1).
type recent struct {
	ids  []uint32 // stream numbers are odd: one less is a stream that was refused
	next int
	last uint32 // the highest stream that is remembered no longer; 0: none
}

// recentKind is why a stream is remembered.
type recentKind uint8

const (
	notRecent     recentKind = iota
	resetStream              // this side reset it, having served it
	refusedStream            // it was never served
	perhapsReset             // no later than one that is remembered no longer, so this side may have reset it
)

func (r *recent) add(id uint32, kind recentKind) {
	if kind == refusedStream {
		id--
	}
	if len(r.ids) < recentMax {
		r.ids = append(r.ids, id)
		return
	}
	r.last = max(r.last, r.ids[r.next]|1)
	r.ids[r.next] = id
	r.next = (r.next + 1) % recentMax
}

// has returns why stream id, which is not open, is remembered.
func (r *recent) has(id uint32) recentKind {
	if r == nil {
		return notRecent
	}
	for _, x := range r.ids {
		switch x {
		case id:
			return resetStream
		case id - 1:
			return refusedStream
		}
	}
	if id <= r.last {
		return perhapsReset
	}
	return notRecent
}

// takeRefused reports whether stream id is remembered as refused, and from then on
// remembers it as reset.
func (r *recent) takeRefused(id uint32) bool {
	if r == nil || id&1 == 0 {
		return false
	}
	for i, x := range r.ids {
		if x == id-1 {
			r.ids[i] = id
			return true
		}
	}
	return false
}

// remember notes that this side has reset stream id. c.mu is held.
func (c *Conn) remember(id uint32, kind recentKind) {
	if c.recent == nil {
		c.recent = new(recent)
	}
	c.recent.add(id, kind)
}
