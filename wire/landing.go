package wire

import (
	"math"

	"github.com/tarn-go/tarn"
)

// Landing receives one message of declared length in a buffer of its own. The
// buffer grows as bytes arrive, so that a peer that declares much and sends little
// causes no large allocation: it has at most max(trust, 4 × what has arrived) bytes. It is
// held beside the one before it while what has arrived is copied. It has the declared length over a power of four,
// so that no step is shorter than a factor of four and all together copy less than a third of the message.
//
// The zero Landing is ready for Start. It is for one goroutine at a time.
type Landing struct {
	pool tarn.Allocator
	buf  tarn.Buffer
	mem  []byte
	got  int // bytes that arrived
	want int // bytes declared
	// frugal is set by Shrink: the message may stop arriving at any time.
	frugal bool
}

// Start begins a message of n > 0 bytes, as the peer has declared. trust is how many
// bytes of memory may be taken before any has arrived; ≤ 0 is DefaultTrust. It panics
// when a message is under way, or n is not positive.
func (l *Landing) Start(pool tarn.Allocator, n, trust int) {
	if l.want != 0 {
		panic("wire: Landing.Start during a message")
	}
	if n <= 0 {
		panic("wire: Landing.Start of no bytes")
	}
	if trust <= 0 {
		trust = DefaultTrust
	}
	l.pool, l.got, l.want, l.frugal = pool, 0, n, false
	l.buf = pool.Get(l.room(trust))
	l.mem = l.buf.Bytes()
}

// room returns the largest of the declared length, a fourth of it, a fourth of that and so on that is at most most
// bytes.
func (l *Landing) room(most int) int {
	n := l.want
	for n > most {
		n = (n-1)/4 + 1
	}
	return n
}

// Active reports whether a message is under way: begun and not yet taken.
func (l *Landing) Active() bool { return l.want != 0 }

// Left returns how many bytes have yet to arrive.
func (l *Landing) Left() int { return l.want - l.got }

// Space returns where the next bytes go: at least one byte while Left is above
// zero, and never more than Left. It is borrowed until the next call.
func (l *Landing) Space() []byte {
	if l.got == len(l.mem) && l.got < l.want {
		if l.frugal {
			l.move(min(l.want, 2*min(l.got, math.MaxInt/2)))
		} else {
			l.move(l.room(4 * min(l.got, math.MaxInt/4)))
		}
	}
	return l.mem[l.got:]
}

// Memory returns how many bytes l holds, those that nothing has arrived in included.
func (l *Landing) Memory() int { return len(l.mem) }

// Shrink is for a message that may have to wait for long: if less than half of what l
// holds has arrived, what has is copied to a buffer that fits it. From then on the
// message's buffer grows by twos instead of by fours.
func (l *Landing) Shrink() {
	if l.got == 0 {
		return
	}
	l.frugal = true
	if len(l.mem)/2 <= l.got {
		return
	}
	l.move(l.got)
}

// move puts what has arrived into a new buffer of n bytes.
func (l *Landing) move(n int) {
	b := l.pool.Get(n)
	mem := b.Bytes()
	copy(mem, l.mem[:l.got])
	l.buf.Free()
	l.buf, l.mem = b, mem
}

// Filled says that n more bytes stand at the start of the last Space. It panics if that had fewer, or n is negative.
func (l *Landing) Filled(n int) {
	if n < 0 || n > len(l.mem)-l.got {
		panic("wire: Landing.Filled beyond its space")
	}
	l.got += n
}

// Put copies from p what the message still lacks and returns how much that was.
func (l *Landing) Put(p []byte) int {
	n := 0
	for n < len(p) && l.got < l.want {
		m := copy(l.Space(), p[n:])
		l.got += m
		n += m
	}
	return n
}

// Take returns the complete message, to be freed by the caller, and makes l ready
// for the next. It panics while bytes are missing.
func (l *Landing) Take() tarn.Buffer {
	if l.got != l.want {
		panic("wire: Landing.Take of an incomplete message")
	}
	b := l.buf
	*l = Landing{}
	return b
}

// Free drops a message under way; without one it does nothing.
func (l *Landing) Free() {
	l.buf.Free()
	*l = Landing{}
}
