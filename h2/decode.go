package h2

import (
	"bytes"
	"math"
)

const (
	rememberedBlocks = 16
	maxPrefix        = 1 << 10 // bytes of a header block worth remembering
	maxRemembered    = 8 << 10 // and what it may decode to
)

// decoder reads header blocks. A block that leaves the dynamic table as it is
// decodes to the same list as long as the table stays so; its bytes up to the
// last indexed field are remembered, and when they come again only what follows
// is decoded: literals, such as a deadline that differs from call to call. Any
// change of the table forgets everything. Run's own.
type decoder struct {
	table     table
	limit     int    // of a list, in bytes as RFC 9113 section 6.5.2 counts them
	maxFields int    // and in fields
	blanks    blanks // around field values
	known     [rememberedBlocks]*remembered
	nknow     int
	turn      int

	// Of the block being decoded:
	h             *Header
	bad           badHeader
	size          int
	regular       bool    // a regular field has been seen
	fields        []Field // scratch
	more          []Field // scratch
	into          *[]Field
	nfields       int // of them all
	seen          pseudo
	inside        bool // not at its beginning, where alone the table's size may change
	selfDependent bool
}

type remembered struct {
	prefix  []byte
	h       Header // without More
	memo    any
	size    int
	seen    pseudo
	regular bool
}

// badHeader is what is wrong with a header list, the peer being at fault.
type badHeader struct {
	reason  string
	conn    bool // the block could not be decoded: the connection is lost
	tooLong bool
}

type pseudo uint8

const (
	sawMethod pseudo = 1 << iota
	sawScheme
	sawPath
	sawAuthority
	sawStatus
	sawProtocol
)

// init makes a decoder ready; packed is what its table held when it was packed.
func (d *decoder) init(limit int, packed string) {
	d.table.limit = tableSize
	d.parse([]byte(packed)) // for the table alone: beyond the limit, which is 0 yet
	d.limit, d.maxFields = limit, math.MaxInt
}

// decode decodes block into h. The result is nil if the list is well-formed.
func (d *decoder) decode(block []byte, h *Header) *badHeader {
	d.h, d.bad, d.inside, d.nfields = h, badHeader{}, false, 0
	d.fields, d.more = d.fields[:0], d.more[:0]
	defer d.tidy()
	for i, k := range d.known[:d.nknow] {
		if !bytes.HasPrefix(block, k.prefix) {
			continue
		}
		tail := block[len(k.prefix):]
		if len(tail) > 0 {
			if tail[0]&0xe0 != 0 {
				continue // not a literal: another block
			}
			if _, changes, ok := scan(tail); changes || !ok {
				break
			}
		}
		if i > 0 { // the busy ones move to the front
			d.known[i], d.known[i-1] = d.known[i-1], k
		}
		*h = k.h
		h.Memo = &k.memo
		d.size, d.seen, d.regular, d.nfields = k.size, k.seen, k.regular, len(k.h.Fields)
		if len(tail) == 0 {
			return nil
		}
		d.into = &d.more
		return d.finish(tail)
	}
	return d.slow(block)
}

// slow decodes a block that is not remembered, and remembers it if it can.
func (d *decoder) slow(block []byte) *badHeader {
	*d.h = Header{}
	d.size, d.seen, d.regular = 0, 0, false
	n, changes, ok := scan(block)
	if !ok {
		return &badHeader{conn: true, reason: "a header block that cannot be decoded"}
	}
	if changes {
		d.forget()
		n = len(block)
	}
	d.into = &d.fields
	if reason := d.parse(block[:n]); reason != "" {
		return &badHeader{conn: true, reason: reason}
	}
	if len(d.fields) > 0 {
		d.h.Fields = append([]Field(nil), d.fields...)
	}
	if !changes && n > 0 && n <= maxPrefix && d.size <= maxRemembered && d.bad == (badHeader{}) {
		k := &remembered{prefix: append([]byte(nil), block[:n]...), h: *d.h, size: d.size, seen: d.seen, regular: d.regular}
		d.h.Memo = &k.memo
		if d.nknow < len(d.known) {
			d.known[d.nknow] = k
			d.nknow++
		} else {
			d.known[d.turn] = k
			d.turn = (d.turn + 1) % len(d.known)
		}
	}
	d.into = &d.more
	return d.finish(block[n:])
}

// finish decodes the rest of a block, literals that do not change the table.
func (d *decoder) finish(tail []byte) *badHeader {
	if reason := d.parse(tail); reason != "" {
		return &badHeader{conn: true, reason: reason}
	}
	d.h.More = d.more
	if d.bad != (badHeader{}) {
		bad := d.bad
		return &bad
	}
	return nil
}

// startLong begins a block that is too long to be gathered. Its parts are decoded by
// decodeLong as they come: what fits the limits goes to h, and the table is kept in
// step, so that only the stream is lost.
func (d *decoder) startLong(h *Header) {
	*h = Header{}
	d.h, d.bad, d.inside, d.nfields = h, badHeader{}, false, 0
	d.fields, d.more = d.fields[:0], d.more[:0]
	d.size, d.seen, d.regular = 0, 0, false
	d.into = &d.fields
	d.forget()
}

// decodeLong decodes what p has of complete representations and returns the rest.
func (d *decoder) decodeLong(p []byte) (rest []byte, bad *badHeader) {
	n := completePart(p)
	if reason := d.parse(p[:n]); reason != "" {
		return nil, &badHeader{conn: true, reason: reason}
	}
	return p[n:], nil
}

// endLong ends the block, of which p is left.
func (d *decoder) endLong(p []byte) *badHeader {
	defer d.tidy()
	rest, bad := d.decodeLong(p)
	if bad != nil {
		return bad
	}
	if len(rest) > 0 {
		return &badHeader{conn: true, reason: "a header block that cannot be decoded"}
	}
	d.h.Fields = append([]Field(nil), d.fields...)
	return &badHeader{tooLong: true, reason: "a header list beyond the limit"}
}

// forget drops what was remembered of blocks.
func (d *decoder) forget() {
	clear(d.known[:])
	d.nknow, d.turn = 0, 0
}

// tidy keeps the scratch space within bounds.
func (d *decoder) tidy() {
	if cap(d.fields) > 256 {
		d.fields = nil
	}
	if cap(d.more) > 256 {
		d.more = nil
	}
}

// emit takes one field as it is decoded.
func (d *decoder) emit(f Field) {
	if d.bad.tooLong {
		return // the table is still kept in step
	}
	if d.size += len(f.Name) + len(f.Value) + entryCost; d.size > d.limit {
		d.bad = badHeader{tooLong: true, reason: "a header list beyond the limit"}
		return
	}
	if len(f.Name) > 0 && f.Name[0] == ':' {
		d.pseudo(f)
		return
	}
	d.regular = true
	if d.nfields++; d.nfields > d.maxFields {
		d.bad = badHeader{tooLong: true, reason: "more fields than the limit"}
		return
	}
	if reason := checkField(f.Name, f.Value, d.blanks); reason != "" {
		d.bad.reason = reason
		return
	}
	*d.into = append(*d.into, f)
}

// pseudo takes a pseudo-field (RFC 9113 section 8.3).
func (d *decoder) pseudo(f Field) {
	h := d.h
	var p pseudo
	switch f.Name {
	case ":method":
		p, h.Method = sawMethod, f.Value
	case ":scheme":
		p, h.Scheme = sawScheme, f.Value
	case ":path":
		p, h.Path = sawPath, f.Value
	case ":authority":
		p, h.Authority = sawAuthority, f.Value
	case ":protocol":
		p, h.Protocol = sawProtocol, f.Value
	case ":status":
		p = sawStatus
		for _, b := range []byte(f.Value) {
			if b < '0' || b > '9' || len(f.Value) != 3 {
				d.bad.reason = ":status that is no status"
				return
			}
			h.Status = 10*h.Status + int(b-'0')
		}
	default:
		d.bad.reason = "an unknown pseudo-field"
		return
	}
	switch {
	case d.seen&p != 0:
		d.bad.reason = "a pseudo-field twice"
	case d.regular:
		d.bad.reason = "a pseudo-field after others"
	case !validValue(f.Value):
		d.bad.reason = "a pseudo-field's value with control characters"
	}
	d.seen |= p
}
