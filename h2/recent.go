package h2

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
	resetStream   recentKind = iota // this side reset it, having served it
	refusedStream                   // it was never served
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

// has reports whether this side reset stream id, which is not open, or may have done so.
func (r *recent) has(id uint32) bool {
	if r == nil {
		return false
	}
	if r.forgot(id) { // first, so that nothing is searched for streams that anyone can name
		return true
	}
	for _, x := range r.ids {
		if x == id || x == id-1 {
			return true
		}
	}
	return false
}

// forgot reports whether stream id is no later than one that is remembered no longer, so that this side may have reset it.
func (r *recent) forgot(id uint32) bool { return r != nil && id <= r.last }

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
