package message

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/tarn-go/tarn"
)

// landFrom is the length in bytes from which a message that has not arrived yet is received into a separate
// buffer. Shorter ones mostly arrive within one read, and are used where they are.
const landFrom = 32 << 10

// planFrom is the length in bytes from which long fields are received separately: a plan costs some forty
// small allocations, more than a copy of 64 KiB.
const planFrom = 128 << 10

// Assembler assembles messages from the payloads of DATA frames, however the peer divided them. The zero
// value is ready. It is not safe for concurrent use. Most streams never have more than one piece at a time,
// so that one is stored apart from the structure for several.
type Assembler struct {
	// Ends are the flags, besides that of compression, by which the peer may mark a message that belongs to
	// the protocol: the end of a stream. None in gRPC.
	Ends Kind

	one    tarn.Buffer
	pieces *pieces // nil until there is more than one piece, or a large message
}

// pieces is the part of an Assembler for more than one piece. When it is empty it is reused by others.
type pieces struct {
	data    tarn.Chain
	large   *arrival // a large message that is being received; nil: none
	kind    Kind     // of it
	grants  *Allowance
	granted int // of grants
}

var spare = sync.Pool{New: func() any { return new(pieces) }}

// several returns a.pieces, and makes it if needed.
func (a *Assembler) several() *pieces {
	if a.pieces == nil {
		a.pieces = spare.Get().(*pieces)
	}
	return a.pieces
}

// Append takes ownership of b.
func (a *Assembler) Append(b tarn.Buffer) {
	if l := a.large(); l != nil && b.Len() > 0 {
		b = b.Narrow(l.put(b.Bytes()), b.Len())
	}
	if b.Len() == 0 {
		b.Free()
		return
	}
	if a.held() == 0 {
		a.one = b
		return
	}
	a.spill()
	a.pieces.data.Append(b)
}

// large returns the large message that is being received; nil: none.
func (a *Assembler) large() *arrival {
	if a.pieces == nil {
		return nil
	}
	return a.pieces.large
}

// shrinkBelow is the fraction of a slab that a piece must use for the slab to be kept: one in shrinkBelow.
const shrinkBelow = 8

// Shrink is called when received data may have to wait for long. A piece that uses little of its slab is
// copied to one of its size, so that a peer cannot make this side hold more than shrinkBelow times what it
// has sent.
func (a *Assembler) Shrink() {
	if n := a.one.Len(); n > 0 && n*shrinkBelow < a.one.Pinned() {
		a.one = a.one.Shrink()
	}
}

// Park is Shrink for a message that must wait although the peer would send more of it: the memory taken in
// advance for a landing message is freed, too. It must not be called between Land and Landed.
func (a *Assembler) Park() {
	a.Shrink()
	if l := a.large(); l != nil {
		l.shrink()
	}
}

// Memory returns how many bytes a landing message takes, including those that have not arrived, and how many
// other bytes are held.
func (a *Assembler) Memory() int {
	n := a.held()
	if l := a.large(); l != nil {
		n += l.memory()
	}
	return n
}

// spill moves the one piece to the others.
func (a *Assembler) spill() {
	m := a.several()
	if a.one.Len() > 0 {
		m.data.Prepend(a.one)
		a.one = tarn.Buffer{}
	}
}

// held is the received data that does not belong to a large message.
func (a *Assembler) held() int {
	n := a.one.Len()
	if a.pieces != nil {
		n += a.pieces.data.Len()
	}
	return n
}

// Len is how many bytes have arrived and have not been taken.
func (a *Assembler) Len() int {
	n := a.held()
	if l := a.large(); l != nil {
		n += PrefixLen + l.got
	}
	return n
}

// Missing says how many more bytes the message at the front needs, and how long
// its payload is; ok is false while the prefix itself is incomplete.
func (a *Assembler) Missing() (missing, size int, ok bool) {
	if l := a.large(); l != nil {
		return l.left(), l.size, true
	}
	p, ok := a.prefix()
	if !ok {
		return 0, 0, false
	}
	size = declared(p)
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
	vs, err := a.pieces.data.Peek(PrefixLen, views[:0])
	if err != nil {
		return p, false
	}
	n := 0
	for _, v := range vs {
		n += copy(p[n:], v)
	}
	return p, true
}

// longest is the length of a message that counts as longer: an int of 32 bits has no larger ones together with the prefix.
const longest = math.MaxInt - PrefixLen

// declared returns the length of the payload in prefix p, at most longest.
func declared(p [PrefixLen]byte) int {
	return int(min(uint64(binary.BigEndian.Uint32(p[1:])), longest))
}

// beyond reports whether a message of size bytes is refused, whatever the limit is if it is too long for this platform.
func beyond(size, limit int) bool { return size > limit || size == longest }

// LongestEnd is how many bytes a frame that ends a stream may have at least, whatever the limit on messages: it has a status and trailers,
// and as many as a header list by default.
const LongestEnd = 64 << 10

// defined reports whether a prefix's flags have a meaning.
func (a *Assembler) defined(flags byte) bool { return flags&^(flagCompressed|byte(a.Ends)) == 0 }

// Land returns the memory into which the next bytes of a large message may be read; nil to have them by
// Append. The memory belongs to a until Landed; it is taken as bytes arrive, in advance only as far as grants
// allows. plan is the plan of the message's type (nil: unknown): its long bytes fields get separate memory.
func (a *Assembler) Land(pool *tarn.Pool, limit int, grants *Allowance, plan *Plan) []byte {
	if l := a.large(); l != nil {
		if l.left() == 0 || l.size < landFrom { // for so few bytes a system call of their own costs more than a copy
			return nil
		}
		return l.space()
	}
	p, ok := a.prefix()
	if !ok || !a.defined(p[0]) {
		return nil
	}
	size := declared(p)
	have := a.held() - PrefixLen
	if size < landFrom || beyond(size, limit) || have >= size {
		return nil
	}
	a.begin(p, pool, grants, plan)
	return a.pieces.large.space()
}

// Gather has a message of up to 32 KiB that has arrived in part received into a buffer of its own, as Land does for
// longer ones, if that holds no more than shrinkBelow times what has arrived. Otherwise its pieces would be copied
// together when the last has come, by another goroutine and when they have left the processor's cache, and until then
// each would keep a receive buffer. It must not be called between Land and Landed.
func (a *Assembler) Gather(pool *tarn.Pool, limit int) {
	if a.large() != nil {
		return
	}
	p, ok := a.prefix()
	if !ok || !a.defined(p[0]) {
		return
	}
	size := declared(p)
	have := a.held() - PrefixLen
	if size < joinBelow || size >= landFrom || beyond(size, limit) || have >= size || size > shrinkBelow*have {
		return
	}
	a.begin(p, pool, nil, nil)
}

// begin has the message at the front, whose prefix is p, received into separate memory.
func (a *Assembler) begin(p [PrefixLen]byte, pool *tarn.Pool, grants *Allowance, plan *Plan) {
	size := declared(p)
	have := a.held() - PrefixLen
	a.spill()
	m := a.pieces
	m.kind, m.grants = Kind(p[0]), grants
	if m.kind != Plain || size < planFrom {
		plan = nil
	}
	trust := trusted(have)
	if size > trust && grants.take(size) {
		trust, m.granted = size, size
	}
	m.large = newArrival(pool, plan, size, trust)
	if _, err := m.data.Discard(PrefixLen); err != nil {
		return // impossible: the prefix was just read
	}
	var array [4][]byte // more than one is rare
	views, err := m.data.Peek(have, array[:0])
	if err != nil {
		return // impossible: it holds that much
	}
	for _, v := range views {
		m.large.put(v)
	}
	m.data.Free()
}

// Landed reports that the first n bytes of Land's memory are filled.
func (a *Assembler) Landed(n int) { a.pieces.large.arrived(n) }

// Next removes the message at the front, to be freed by the caller; ok is false while it is incomplete. A length
// above limit (of the frame that ends a stream: above [LongestEnd] too) is refused as soon as the prefix has arrived, with ErrTooLarge;
// an undefined flag with ErrFlag.
// size is the length in the prefix, also with an error.
func (a *Assembler) Next(limit int) (m Message, kind Kind, size int, ok bool, err error) {
	if l := a.large(); l != nil {
		kind = a.pieces.kind
		if l.left() > 0 {
			return m, kind, l.size, false, nil
		}
		a.pieces.endLarge()
		size = l.size
		a.pieces.grants.earn(size)
		m = l.take()
		a.recycle()
		return m, kind, size, true, nil
	}
	p, ok := a.prefix()
	if !ok {
		return m, 0, 0, false, nil
	}
	size = declared(p)
	if !a.defined(p[0]) {
		return m, 0, size, false, ErrFlag
	}
	kind = Kind(p[0])
	if kind&a.Ends != 0 {
		limit = max(limit, LongestEnd)
	}
	if beyond(size, limit) {
		return m, 0, size, false, ErrTooLarge
	}
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
		a.recycle()
	}
	return m, kind, size, err == nil, err
}

// joinBelow is the length in bytes below which a message that lies among others is made contiguous, with a copy
// if the peer has divided it: protobuf needs it contiguous, and a Chain for each message is an allocation.
const joinBelow = 4 << 10

// cut removes size bytes behind the prefix from the chain.
func (a *Assembler) cut(size int) (m Message, err error) {
	data := &a.pieces.data
	if _, err = data.Discard(PrefixLen); err != nil {
		return m, err
	}
	if size < joinBelow {
		m.Buf, err = data.Next(size)
		return m, err
	}
	c, err := data.Cut(size)
	if err != nil {
		return m, err
	}
	return Message{Chain: &c}, nil
}

// Free frees everything. It must not be called between Land and Landed.
func (a *Assembler) Free() {
	a.one.Free()
	a.one = tarn.Buffer{}
	if a.pieces != nil {
		a.pieces.data.Free()
		if l := a.pieces.large; l != nil {
			a.pieces.endLarge()
			l.free()
		}
		a.recycle()
	}
}

// endLarge is called when no more of the large message is received.
func (m *pieces) endLarge() {
	m.large = nil
	m.grants.give(m.granted)
	m.granted = 0
}

// recycle makes a.pieces available for reuse if it is empty.
func (a *Assembler) recycle() {
	m := a.pieces
	if m.large == nil && m.data.Len() == 0 {
		a.pieces = nil
		m.data.Free() // memory kept for more
		*m = pieces{}
		spare.Put(m)
	}
}
