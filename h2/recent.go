package h2

// recentMax is how many streams that this side reset are remembered.
const recentMax = 1024

// recent remembers streams this side reset lately, the oldest going first: the
// peer may have sent frames for them before it knew (RFC 9113 section 5.1).
type recent struct {
	ids  []uint32
	next int
}

func (r *recent) add(id uint32) {
	if len(r.ids) < recentMax {
		r.ids = append(r.ids, id)
		return
	}
	r.ids[r.next] = id
	r.next = (r.next + 1) % recentMax
}

func (r *recent) has(id uint32) bool {
	if r == nil {
		return false
	}
	for _, x := range r.ids {
		if x == id {
			return true
		}
	}
	return false
}

// remember notes that this side has reset stream id. c.mu is held.
func (c *Conn) remember(id uint32) {
	if c.recent == nil {
		c.recent = new(recent)
	}
	c.recent.add(id)
}
