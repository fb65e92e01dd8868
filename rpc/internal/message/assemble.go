package message

import (
	"encoding/binary"

	"github.com/tarn-go/tarn"
)

// Assembler puts messages together from the payloads of DATA frames, however
// the peer cut them. The zero value is ready. It is not safe for concurrent
// use. One buffer is held apart from the chain because most streams never have
// more than one at a time.
type Assembler struct {
	one  tarn.Buffer
	rest tarn.Chain
}

// Append takes ownership of b.
func (a *Assembler) Append(b tarn.Buffer) {
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

func (a *Assembler) spill() {
	if a.one.Len() > 0 {
		a.rest.Prepend(a.one)
		a.one = tarn.Buffer{}
	}
}

// Len is the number of bytes held.
func (a *Assembler) Len() int { return a.one.Len() + a.rest.Len() }

// Missing says how many more bytes the message at the front needs, and how long
// its payload is; ok is false while the prefix itself is incomplete.
func (a *Assembler) Missing() (missing, size int, ok bool) {
	p, ok := a.prefix()
	if !ok {
		return 0, 0, false
	}
	size = int(binary.BigEndian.Uint32(p[1:]))
	return max(0, PrefixLen+size-a.Len()), size, true
}

func (a *Assembler) prefix() (p [PrefixLen]byte, ok bool) {
	if a.one.Len() >= PrefixLen {
		copy(p[:], a.one.Bytes())
		return p, true
	}
	if a.Len() < PrefixLen {
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

// Next takes out the message at the front; ok is false while it is incomplete.
// A length above limit is refused as soon as the prefix is there, with
// ErrTooLarge; a flag nobody defined with ErrFlag. size is what the prefix
// says, also with an error.
func (a *Assembler) Next(limit int) (m Message, kind Kind, size int, ok bool, err error) {
	p, ok := a.prefix()
	if !ok {
		return m, 0, 0, false, nil
	}
	size = int(binary.BigEndian.Uint32(p[1:]))
	if p[0] > flagCompressed {
		return m, 0, size, false, ErrFlag
	}
	if size > limit {
		return m, 0, size, false, ErrTooLarge
	}
	kind = Kind(p[0])
	total := PrefixLen + size
	if a.Len() < total {
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

// Free gives back everything held.
func (a *Assembler) Free() {
	a.one.Free()
	a.one = tarn.Buffer{}
	a.rest.Free()
}
