package message

import (
	"encoding/binary"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/wire"
)

// landFrom is the length in bytes from which a message that is not there yet
// gets a buffer of its own to arrive in. Shorter ones mostly come whole within
// one read, and are used where they are.
const landFrom = 32 << 10

// Assembler puts messages together from the payloads of DATA frames, however
// the peer cut them. The zero value is ready. It is not safe for concurrent
// use. One buffer is held apart from the chain because most streams never have
// more than one at a time; a large message may land in a buffer of its own.
type Assembler struct {
	// Ends are the flags, beside that of compression, by which the peer may mark a
	// message that is its protocol's own: the end of a stream. None in gRPC.
	Ends Kind

	one     tarn.Buffer
	rest    tarn.Chain
	landing wire.Landing
	kind    Kind // of the message that is landing
	habit   *Habit
	kept    bool // it lands in memory of the garbage collector's
	size    int
	credit  *Credit // what it was taken on
	trusted int     // how much of that
}

// Append takes ownership of b.
func (a *Assembler) Append(b tarn.Buffer) {
	if n := a.landing.Left(); n > 0 && b.Len() > 0 {
		n = a.landing.Put(b.Bytes()[:min(n, b.Len())])
		b = b.Narrow(n, b.Len())
	}
	if b.Len() == 0 {
		b.Free()
		return
	}
	if a.one.Len() == 0 && a.rest.Len() == 0 {
		a.one = b
		return
	}
	a.spill()
	a.rest.Append(b)
}

// shrinkBelow is the part of a slab that a piece must show for the slab to be kept for
// it: one in shrinkBelow.
const shrinkBelow = 8

// Shrink is called when what has come may have to wait for long. A piece that shows
// little of its slab is copied to one that fits it, so that a peer cannot make this
// side hold more than shrinkBelow times what it has sent.
func (a *Assembler) Shrink() {
	if n := a.one.Len(); n > 0 && n*shrinkBelow < a.one.Pinned() {
		a.one = a.one.Shrink()
	}
}

// Park is Shrink for a message that must wait although the peer would send more of it:
// the memory that a landing message has been given in advance is given back, too. It
// must not be called between Land and Landed.
func (a *Assembler) Park() {
	a.Shrink()
	a.landing.Shrink()
}

// Memory returns how many bytes a landing message takes, those that have not arrived
// included, and how many have come otherwise.
func (a *Assembler) Memory() int { return a.landing.Memory() + a.held() }

func (a *Assembler) spill() {
	if a.one.Len() > 0 {
		a.rest.Prepend(a.one)
		a.one = tarn.Buffer{}
	}
}

// held is what has come and is not landing.
func (a *Assembler) held() int { return a.one.Len() + a.rest.Len() }

// Len is the number of bytes that have come and not been taken.
func (a *Assembler) Len() int {
	n := a.held()
	if a.landing.Active() {
		n += PrefixLen + a.size - a.landing.Left()
	}
	return n
}

// Missing says how many more bytes the message at the front needs, and how long
// its payload is; ok is false while the prefix itself is incomplete.
func (a *Assembler) Missing() (missing, size int, ok bool) {
	if a.landing.Active() {
		return a.landing.Left(), a.size, true
	}
	p, ok := a.prefix()
	if !ok {
		return 0, 0, false
	}
	size = int(binary.BigEndian.Uint32(p[1:]))
	return max(0, PrefixLen+size-a.held()), size, true
}

func (a *Assembler) prefix() (p [PrefixLen]byte, ok bool) {
	if a.one.Len() >= PrefixLen {
		copy(p[:], a.one.Bytes())
		return p, true
	}
	if a.held() < PrefixLen {
		return p, false
	}
	a.spill()
	var views [PrefixLen][]byte
	vs, err := a.rest.Peek(PrefixLen, views[:0])
	if err != nil {
		return p, false
	}
	n := 0
	for _, v := range vs {
		n += copy(p[n:], v)
	}
	return p, true
}

// defined reports whether a prefix's flags have a meaning.
func (a *Assembler) defined(flags byte) bool { return flags&^(flagCompressed|byte(a.Ends)) == 0 }

// Land returns where the next bytes of a large message may be read to, or nil to
// have them by Append. The memory belongs to a until Landed; it is taken as bytes
// arrive, at once only as far as c goes; from pool unless h, the habit of such
// messages (nil: unknown), is to be kept.
func (a *Assembler) Land(pool *tarn.Pool, limit int, c *Credit, h *Habit) []byte {
	if a.landing.Active() {
		if a.landing.Left() == 0 {
			return nil
		}
		return a.landing.Space()
	}
	p, ok := a.prefix()
	if !ok || !a.defined(p[0]) {
		return nil
	}
	size := int(binary.BigEndian.Uint32(p[1:]))
	have := a.held() - PrefixLen
	if size < landFrom || size > limit || have >= size {
		return nil
	}
	a.kind, a.size, a.credit = Kind(p[0]), size, c
	trust := max(wire.DefaultTrust, 4*have)
	if size > trust && c.take(size) {
		trust, a.trusted = size, size
	}
	var from tarn.Allocator = pool
	a.habit, a.kept = nil, false
	if size >= keepFrom && a.kind == Plain {
		a.habit = h
		if a.kept = h.keeps(); a.kept {
			from = collected{pool}
		}
	}
	a.landing.Start(from, size, trust)
	a.spill()
	if _, err := a.rest.Discard(PrefixLen); err != nil {
		return nil // cannot be: the prefix was just read
	}
	if have > 0 {
		a.landing.Filled(a.rest.CopyTo(a.landing.Space()[:have]))
		a.rest.Free()
	}
	return a.landing.Space()
}

// Landed says that the first n bytes of what Land returned are filled.
func (a *Assembler) Landed(n int) { a.landing.Filled(n) }

// Next takes out the message at the front; ok is false while it is incomplete.
// A length above limit is refused as soon as the prefix is there, with
// ErrTooLarge; a flag nobody defined with ErrFlag. size is what the prefix
// says, also with an error.
func (a *Assembler) Next(limit int) (m Message, kind Kind, size int, ok bool, err error) {
	if a.landing.Active() {
		if a.landing.Left() > 0 {
			return m, a.kind, a.size, false, nil
		}
		a.settle()
		a.credit.earn(a.size)
		return Message{Buf: a.landing.Take(), Habit: a.habit, Kept: a.kept}, a.kind, a.size, true, nil
	}
	p, ok := a.prefix()
	if !ok {
		return m, 0, 0, false, nil
	}
	size = int(binary.BigEndian.Uint32(p[1:]))
	if !a.defined(p[0]) {
		return m, 0, size, false, ErrFlag
	}
	if size > limit {
		return m, 0, size, false, ErrTooLarge
	}
	kind = Kind(p[0])
	total := PrefixLen + size
	if a.held() < total {
		return m, kind, size, false, nil
	}
	switch {
	case a.one.Len() == total:
		m.Buf = a.one.Narrow(PrefixLen, total)
		a.one = tarn.Buffer{}
	case a.one.Len() > total:
		head, tail := a.one.Split(total)
		m.Buf, a.one = head.Narrow(PrefixLen, total), tail
	default:
		a.spill()
		m, err = a.cut(size)
	}
	return m, kind, size, err == nil, err
}

// cut takes size bytes behind the prefix out of the chain.
func (a *Assembler) cut(size int) (m Message, err error) {
	if _, err = a.rest.Discard(PrefixLen); err != nil {
		return m, err
	}
	if size == 0 {
		return m, nil
	}
	c, err := a.rest.Cut(size)
	if err != nil {
		return m, err
	}
	return Message{Chain: &c}, nil
}

// Free gives back everything held. It must not be called between Land and
// Landed.
func (a *Assembler) Free() {
	a.one.Free()
	a.one = tarn.Buffer{}
	a.rest.Free()
	a.settle()
	a.landing.Free()
}

// settle gives back the credit of the message that is landing.
func (a *Assembler) settle() {
	if a.trusted > 0 {
		a.credit.give(a.trusted)
		a.trusted = 0
	}
}
