package message

import (
	"bytes"
	"math"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/wire"
)

const (
	// firstLook is how many bytes of a message are first read in search of a long field: bytes of the field
	// among them have to be copied.
	firstLook = 512
	// lastLook is the limit to which that grows while none is found.
	lastLook = 64 << 10
)

// arrival is a large message that is being received. With a plan, its long bytes fields are received into
// separate memory, which the garbage collector owns; everything else into one buffer. Memory is taken as
// bytes arrive: for either at most max(trust, 4 × the bytes that have arrived).
type arrival struct {
	splitter
	plan  *Plan
	pool  *tarn.Pool
	size  int // of the message
	got   int // bytes of it that have arrived
	trust int
	tight bool // see shrink

	buf    tarn.Buffer // everything except long fields
	mem    []byte      // buf's: [:kept] has been parsed, [next:end] has not
	kept   int
	next   int
	end    int
	chunk  int
	into   []byte // the long field that is being received: [:filled] has arrived
	filled int
	long   int // its length; 0: there is none
}

func newArrival(pool *tarn.Pool, plan *Plan, size, trust int) *arrival {
	a := arrivals.Get().(*arrival)
	a.plan, a.pool, a.size, a.trust, a.chunk = plan, pool, size, trust, firstLook
	a.begin(plan, size)
	return a
}

// arrivals are reused: one takes about a kilobyte.
var arrivals = sync.Pool{New: func() any { return new(arrival) }}

// recycle makes a available for reuse; the caller holds the last reference.
func (a *arrival) recycle() {
	*a = arrival{}
	arrivals.Put(a)
}

func (a *arrival) left() int { return a.size - a.got }

// room returns how much of n bytes is taken at once when have of them have arrived. It is a fourth of what is
// taken next, and so on up to n: the last step is no shorter than the others, and all together copy less than a
// third of n.
func (a *arrival) room(n, have int) int {
	if a.tight {
		return min(n, max(2*min(have, math.MaxInt/2), firstLook))
	}
	for most := max(a.trust, fourfold(a.got)); n > most; {
		n = (n-1)/4 + 1
	}
	return n
}

// memory returns how many bytes are taken, including those not filled yet.
func (a *arrival) memory() int { return len(a.mem) + len(a.into) + a.apart }

// shrink is for a message that may have to wait for long: when less than half of its memory is filled, the
// content is copied to memory of its size. From then on the message's memory grows by a factor of two.
func (a *arrival) shrink() {
	if a.got == 0 {
		return
	}
	a.tight = true
	if len(a.into) > max(2*a.filled, firstLook) {
		a.into = bytes.Clone(a.into[:a.filled])
	}
	if len(a.mem) > max(2*a.end, firstLook) {
		a.move(max(a.end, firstLook))
	}
}

// move copies the received part of buf into a buffer of n bytes.
func (a *arrival) move(n int) {
	b := a.pool.Get(n)
	mem := b.Bytes()
	copy(mem, a.mem[:a.end])
	a.buf.Free()
	a.buf, a.mem = b, mem
}

// space returns the memory for the next bytes: at least one while more are expected.
func (a *arrival) space() []byte {
	if a.long > 0 {
		if a.filled == len(a.into) {
			a.into = append(make([]byte, 0, a.room(a.long, a.filled)), a.into...)
			a.into = a.into[:cap(a.into)]
		}
		return a.into[a.filled:]
	}
	if a.next > a.kept { // the part of a token that has been received
		a.end = a.kept + copy(a.mem[a.kept:], a.mem[a.next:a.end])
		a.next = a.kept
	}
	n := a.chunk
	if a.skip > 0 {
		n = a.skip
	}
	n = min(n, a.left())
	if a.end+n > len(a.mem) {
		if a.end == len(a.mem) {
			a.grow(a.end + n)
		}
		n = min(n, len(a.mem)-a.end)
	}
	return a.mem[a.end : a.end+n]
}

// grow makes a larger buf: as large as needed or 4 times as large as before, within the limits.
func (a *arrival) grow(need int) {
	most := a.size // of buf, as far as is known
	for i := range a.views {
		most -= len(a.views[i].mem)
	}
	a.move(max(a.room(min(max(need, fourfold(len(a.mem))), most), a.end), a.end+1))
}

// arrived reports that the first n bytes of space have been filled.
func (a *arrival) arrived(n int) {
	a.got += n
	if a.long > 0 {
		a.filled += n
		a.endLong()
		return
	}
	a.end += n
	a.chunk = min(2*a.chunk, lastLook)
	for a.long == 0 {
		n, long := a.look(a.mem[a.next:a.end])
		if a.kept != a.next {
			copy(a.mem[a.kept:], a.mem[a.next:a.next+n])
		}
		a.kept, a.next = a.kept+n, a.next+n
		if long == 0 {
			break
		}
		a.long, a.chunk = long, firstLook
		// The part in the buffer has arrived and counts in room.
		a.into = make([]byte, max(a.room(long, 0), min(long, a.end-a.next)))
		a.filled = copy(a.into, a.mem[a.next:a.end])
		a.next += a.filled
		a.endLong()
	}
	if a.next == a.end {
		a.next, a.end = a.kept, a.kept
	}
}

// endLong ends the long field when it has arrived completely.
func (a *arrival) endLong() {
	if a.filled == a.long {
		a.received(a.into[:a.long:a.long])
		a.into, a.filled, a.long = nil, 0, 0
	}
}

// put copies the bytes from p that the message still lacks and returns how many they were.
func (a *arrival) put(p []byte) int {
	n := 0
	for n < len(p) && a.left() > 0 {
		m := copy(a.space(), p[n:])
		a.arrived(m)
		n += m
	}
	return n
}

// take returns the message, which has arrived completely, to be freed by the caller. It takes ownership of a.
func (a *arrival) take() Message {
	a.look(nil) // ends the levels that end here
	skeleton := a.buf.Narrow(0, a.kept)
	a.buf, a.mem = tarn.Buffer{}, nil
	if len(a.views) == 0 {
		a.recycle()
		return Message{Buf: skeleton}
	}
	return Message{Buf: skeleton, parts: a}
}

func (a *arrival) free() {
	a.buf.Free()
	a.recycle()
}

// unmarshal fills v from m, whose parts a holds; false: v is not of the planned type, or the message must be
// parsed as one piece.
func (a *arrival) unmarshal(m *Message, v proto.Message) (ok bool, err error) {
	if a.plain || a.plan.md != v.ProtoReflect().Descriptor() || !copies(v) {
		return false, nil
	}
	data := m.Buf.Bytes()
	return true, a.splitter.unmarshal(a.appendSkeleton(data[:0], data), v) // appending never overtakes reading
}

// chain takes ownership of a and of the skeleton, and returns all of it, to be
// freed by the caller.
func (a *arrival) chain(skeleton tarn.Buffer) *tarn.Chain {
	c := new(tarn.Chain)
	at := 0
	for i := range a.views {
		v := &a.views[i]
		if v.place > at {
			c.Append(skeleton.Slice(at, v.place))
			at = v.place
		}
		c.Append(a.pool.Wrap(v.mem, nil))
	}
	if skeleton.Len() > at {
		c.Append(skeleton.Slice(at, skeleton.Len()))
	}
	skeleton.Free()
	a.recycle()
	return c
}

// trusted is how many bytes are taken for a declared length without an allowance.
func trusted(have int) int { return max(wire.DefaultTrust, fourfold(have)) }

// fourfold is 4*n, or about the largest int.
func fourfold(n int) int { return 4 * min(n, math.MaxInt/4) }
