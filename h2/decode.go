package h2

import (
	"math"
	"slices"
)

const (
	rememberedBlocks = 16
	maxRun           = 64      // fields of a run
	maxRemembered    = 8 << 10 // bytes that a run may decode to
)

// decoder reads header blocks. What a block begins with in most calls is a run of
// indexed fields: what the calls have in common. The entries that they name are
// remembered with the list that they decode to, so that only what follows the run is
// decoded: literals, such as a deadline that differs from call to call. An entry is
// named by when it was added, so that a peer which enters those literals in the table,
// and thereby moves all indices, is recognised all the same. Run's own.
type decoder struct {
	table     table
	limit     int    // of a list, in bytes as RFC 9113 section 6.5.2 counts them
	maxFields int    // and in fields
	blanks    blanks // around field values
	known     [rememberedBlocks]*remembered
	nknow     int
	turn      int
	exact     exactBlocks

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
	run           []fieldID // scratch
}

// fieldID names a field that a block has by its index: the index of a static one, or
// staticFields+1 and how many entries were added to the table before it.
type fieldID uint64

// remembered is a run of indexed fields.
type remembered struct {
	run     []fieldID
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
	if k := d.exact.find(block, d.table.state()); k != nil {
		*h = k.h
		h.Memo = &k.memo
		d.size, d.seen, d.regular, d.nfields = k.size, k.seen, k.regular, len(k.h.Fields)
		return nil
	}
	run := d.leadingRun(block)
	for i, k := range d.known[:d.nknow] {
		if run == 0 || !slices.Equal(k.run, d.run) {
			continue
		}
		if i > 0 { // the busy ones move to the front
			d.known[i], d.known[i-1] = d.known[i-1], k
		}
		*h = k.h
		h.Memo = &k.memo
		d.size, d.seen, d.regular, d.nfields = k.size, k.seen, k.regular, len(k.h.Fields)
		if run == len(block) {
			return nil
		}
		d.inside, d.into = true, &d.more
		return d.finish(block[run:])
	}
	return d.slow(block, run)
}

// leadingRun returns the length of the indexed fields that block begins with, and
// leaves in d.run which they are.
func (d *decoder) leadingRun(block []byte) (n int) {
	d.run = d.run[:0]
	for n < len(block) && block[n]&0x80 != 0 && len(d.run) < maxRun {
		v, end := scanInt(block, n, 7)
		id, ok := d.table.id(v)
		if end < 0 || !ok {
			return 0
		}
		d.run = append(d.run, id)
		n = end
	}
	return n
}

// slow decodes a block whose leading run is not remembered, and remembers that if it
// has all pseudo-fields.
func (d *decoder) slow(block []byte, run int) *badHeader {
	*d.h = Header{}
	d.size, d.seen, d.regular = 0, 0, false
	d.into = &d.fields
	if reason := d.parse(block[:run]); reason != "" {
		return &badHeader{conn: true, reason: reason}
	}
	if run > 0 && run < len(block) {
		d.into = &d.more
	}
	k := remembered{h: *d.h, size: d.size, seen: d.seen, regular: d.regular}
	state := d.table.state()
	bad := d.finish(block[run:])
	if len(d.fields) > 0 {
		d.h.Fields = append([]Field(nil), d.fields...)
	}
	if bad == nil && run > 0 && k.size <= maxRemembered && k.seen == d.seen {
		k.run, k.h.Fields = slices.Clone(d.run), d.h.Fields
		d.h.Memo = d.remember(&k)
	} else if bad == nil && d.size <= maxRemembered && state == d.table.state() && d.exact.repeated(block) {
		d.h.Fields, d.h.More = append(d.h.Fields[:len(d.h.Fields):len(d.h.Fields)], d.h.More...), nil
		d.h.Memo = d.exact.add(block, state, remembered{h: *d.h, size: d.size, seen: d.seen, regular: d.regular})
	}
	return bad
}

// remember keeps k, for another if need be, and returns its memo.
func (d *decoder) remember(k *remembered) *any {
	if d.nknow < len(d.known) {
		d.known[d.nknow] = k
		d.nknow++
	} else {
		d.known[d.turn] = k
		d.turn = (d.turn + 1) % len(d.known)
	}
	return &k.memo
}

// finish decodes the rest of a block.
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
