package message

import (
	"bytes"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/wire"
)

const (
	// firstLook is how many bytes of a message are read at first in search of a long
	// field: what is read of the field itself has to be copied.
	firstLook = 512
	// lastLook is to what that grows while none is found.
	lastLook = 64 << 10
)

// arrival is a large message while it comes. With a plan, its long bytes fields come
// to memory of their own, which belongs to the garbage collector; all the rest comes
// to one buffer. Memory is taken as bytes arrive: for either at most
// max(trust, 4 × what has arrived).
type arrival struct {
	splitter
	plan  *Plan
	pool  *tarn.Pool
	size  int // of the message
	got   int // bytes of it that have come
	trust int
	tight bool // see shrink

	buf    tarn.Buffer // the rest
	mem    []byte      // buf's: [:kept] have been looked at, [next:end] have not
	kept   int
	next   int
	end    int
	chunk  int
	into   []byte // the long field that comes: [:filled] has come
	filled int
	long   int // its length; 0: none comes
}

func newArrival(pool *tarn.Pool, plan *Plan, size, trust int) *arrival {
	a := arrivals.Get().(*arrival)
	a.plan, a.pool, a.size, a.trust, a.chunk = plan, pool, size, trust, firstLook
	a.begin(plan, size)
	return a
}

// arrivals are used again: one takes about a kilobyte.
var arrivals = sync.Pool{New: func() any { return new(arrival) }}

// recycle gives up a, to which nothing refers any more but the caller.
func (a *arrival) recycle() {
	*a = arrival{}
	arrivals.Put(a)
}

func (a *arrival) left() int { return a.size - a.got }

// room bounds what is taken at once of n bytes, of which have have come.
func (a *arrival) room(n, have int) int {
	if a.tight {
		return min(n, max(2*have, firstLook))
	}
	return min(n, max(a.trust, 4*a.got))
}

// memory returns how many bytes are taken, those that nothing has arrived in included.
func (a *arrival) memory() int { return len(a.mem) + len(a.into) + a.apart }

// shrink is for a message that may have to wait for long: where less than half of what
// is taken has arrived, what has is copied to memory that fits it. From then on the
// message's memory grows by twos.
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

// move puts what has arrived of the rest into a buffer of n bytes.
func (a *arrival) move(n int) {
	b := a.pool.Get(n)
	mem := b.Bytes()
	copy(mem, a.mem[:a.end])
	a.buf.Free()
	a.buf, a.mem = b, mem
}

// space returns where the next bytes go: at least one while left is above zero.
func (a *arrival) space() []byte {
	if a.long > 0 {
		if a.filled == len(a.into) {
			a.into = append(make([]byte, 0, a.room(a.long, a.filled)), a.into...)
			a.into = a.into[:cap(a.into)]
		}
		return a.into[a.filled:]
	}
	if a.next > a.kept { // what is left of a token
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

// grow makes a larger buffer for the rest: as large as need or 4 times as large as
// before, as far as that is permitted.
func (a *arrival) grow(need int) {
	most := a.size // of the rest, as far as is known
	for i := range a.views {
		most -= len(a.views[i].mem)
	}
	a.move(max(a.room(min(max(need, 4*len(a.mem)), most), a.end), a.end+1))
}

// arrived says that the first n bytes of space have come.
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
		// The part that has arrived is in the buffer already and counts in room.
		a.into = make([]byte, max(a.room(long, 0), min(long, a.end-a.next)))
		a.filled = copy(a.into, a.mem[a.next:a.end])
		a.next += a.filled
		a.endLong()
	}
	if a.next == a.end {
		a.next, a.end = a.kept, a.kept
	}
}

// endLong ends the long field if all of it has come.
func (a *arrival) endLong() {
	if a.filled == a.long {
		a.received(a.into[:a.long:a.long])
		a.into, a.filled, a.long = nil, 0, 0
	}
}

// put copies from p what the message still lacks and returns how much that was.
func (a *arrival) put(p []byte) int {
	n := 0
	for n < len(p) && a.left() > 0 {
		m := copy(a.space(), p[n:])
		a.arrived(m)
		n += m
	}
	return n
}

// take returns the message, all of which has come, to be freed. It takes ownership of a.
func (a *arrival) take() Message {
	a.look(nil) // ends what ends here
	rest := a.buf.Narrow(0, a.kept)
	a.buf, a.mem = tarn.Buffer{}, nil
	if len(a.views) == 0 {
		a.recycle()
		return Message{Buf: rest}
	}
	return Message{Buf: rest, parts: a}
}

func (a *arrival) free() {
	a.buf.Free()
	a.recycle()
}

// unmarshal fills v from m, whose parts a are; false: v is not of the type that was
// planned for, or the message is to be parsed whole.
func (a *arrival) unmarshal(m *Message, v proto.Message) (ok bool, err error) {
	if a.plain || a.plan.md != v.ProtoReflect().Descriptor() {
		return false, nil
	}
	data := m.Buf.Bytes()
	return true, a.splitter.unmarshal(a.appendRest(data[:0], data), v) // what is appended is never ahead of what is read
}

// chain takes ownership of a and of rest, the rest of the message, and returns all of it, to be freed.
func (a *arrival) chain(rest tarn.Buffer) *tarn.Chain {
	c := new(tarn.Chain)
	at := 0
	for i := range a.views {
		v := &a.views[i]
		if v.place > at {
			c.Append(rest.Slice(at, v.place))
			at = v.place
		}
		c.Append(a.pool.Wrap(v.mem, nil))
	}
	if rest.Len() > at {
		c.Append(rest.Slice(at, rest.Len()))
	}
	rest.Free()
	a.recycle()
	return c
}

// trusted is how many bytes are taken on trust when nothing is known of a peer.
func trusted(have int) int { return max(wire.DefaultTrust, 4*have) }
