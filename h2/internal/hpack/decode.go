package hpack

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// Decoder reads header blocks. What a block begins with is the same in most calls: the
// fields that the calls have in common, sent by index or as literals. Such runs of
// fields are remembered with the list that they decode to, so that only what follows
// is decoded: what differs from call to call, such as a deadline. An entry of the table
// has a name that stays (see table.id), so that a peer which enters what differs in the table,
// and thereby moves all indices and evicts all entries in turn, is recognised nevertheless. A remembered run counts if
// it has all the indexed fields that the block begins with: fewer were remembered while
// the peer entered the others. A run of indexed fields
// that has all pseudo-fields is remembered when it is first met; one with literals,
// when a second block begins with it. Literals that enter the table may be among them,
// since nginx enters the same fields with each response; what a remembered run enters
// is entered again. It is used by one goroutine.
type Decoder struct {
	table    table
	limits   Limits
	known    [rememberedBlocks]*remembered
	nknow    int
	next     int                  // of known, to be replaced next
	nextLead int                  // of the leading ones, to give its place to another next
	missed   [missedBlocks][]byte // keys of blocks that began with nothing remembered
	oldest   int                  // of these

	// Of the block being decoded:
	h       *Header
	bad     Malformed
	size    int
	regular bool    // a regular field has been seen
	fields  []Field // scratch
	extra   []Field // scratch
	into    *[]Field
	nfields int     // of them all
	framing Framing // of h.Fields
	seen    pseudo
	inside  bool   // not at its beginning, where alone the table's size may change
	key     []byte // scratch: see scanRun
	ends    []end  // scratch: of the run's fields
	indexed int    // of these, how many at the beginning have an index
}

// Limits is what a Decoder takes of a list.
type Limits struct {
	List   int    // in bytes, as RFC 9113 section 6.5.2 counts them
	Fields int    // pseudo-fields not counted
	Blanks Blanks // around values
}

// end is where a field of a run ends: in the block and in the key.
type end struct {
	block, key int
	enters     bool // it is entered in the table
}

// fieldID names a field that a block has by its index: the index of a static one, or
// staticFields and a number from 1 that its entry of the table has been given.
type fieldID uint64

// remembered is a run of fields.
type remembered struct {
	key     string
	whole   []byte // the block that last had these fields and no others; empty: none. It means the same while the table is in this state
	in      tableState
	n       int     // fields
	enters  []entry // of these, what is entered in the table
	h       Header  // without Extra
	memo    any
	size    int
	seen    pseudo
	regular bool
	framing Framing
}

// Malformed is what is wrong with a header list that the peer has sent.
type Malformed struct {
	Reason  string
	Conn    bool // the block could not be decoded: the connection is lost
	TooLong bool // beyond the Limits
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

// Init makes a Decoder ready. packed is what Pack returned of one that it continues; empty: none.
func (d *Decoder) Init(limits Limits, packed string) {
	d.table.limit = TableSize
	d.parse([]byte(packed)) // for the table alone: beyond the limit, which is 0 yet
	d.limits = limits
}

// Pack returns what the table holds, for Init.
func (d *Decoder) Pack() string { return d.table.pack() }

// Decode decodes block into h, of which Truncated and Length are the caller's. The result is nil if the list is well-formed. No part of
// block is kept.
func (d *Decoder) Decode(block []byte, h *Header) *Malformed {
	d.h, d.bad, d.inside, d.nfields = h, Malformed{}, false, 0
	d.fields, d.extra = d.fields[:0], d.extra[:0]
	if k := d.sameAsBefore(block); k != nil {
		d.take(k)
		return nil
	}
	defer d.tidy()
	d.scanRun(block)
	i := d.longest()
	if i < 0 {
		return d.slow(block)
	}
	k := d.known[i]
	if k.n < len(d.ends) && d.ends[k.n].enters {
		if d.met(k.n) { // with the next field, too
			return d.slow(block)
		}
		d.note()
	}
	if i >= leadingBlocks { // it takes the next leading place: two runs used in turns, as by most calls, both keep theirs then
		d.known[i], d.known[d.nextLead] = d.known[d.nextLead], k
		d.nextLead = (d.nextLead + 1) % leadingBlocks
	}
	d.take(k)
	for _, e := range k.enters {
		d.table.add(e)
	}
	rest := block[d.ends[k.n-1].block:]
	if len(rest) == 0 {
		if len(k.enters) == 0 && len(block) <= maxWhole {
			k.whole, k.in = append(k.whole[:0], block...), d.table.state()
		}
		return nil
	}
	d.inside, d.into = true, &d.extra
	return d.finish(rest)
}

// Size is that of the list decoded last, in bytes as RFC 9113 section 6.5.2 counts them.
func (d *Decoder) Size() int { return d.size }

// Truncate drops the fields of the list decoded last, which is too long; its pseudo-fields stay.
func (d *Decoder) Truncate() {
	h := d.h
	h.Fields, h.Extra, h.Memo = nil, nil, nil // Memo would be another list's
	d.size = len(h.Method) + len(h.Scheme) + len(h.Path) + len(h.Authority) + len(h.Protocol) + 4*EntryCost
}

// take hands out what k decodes to.
func (d *Decoder) take(k *remembered) {
	*d.h = k.h
	d.h.Memo = &k.memo
	d.size, d.seen, d.regular, d.nfields, d.framing = k.size, k.seen, k.regular, len(k.h.Fields), k.framing
}

// sameAsBefore returns the run that block is as a whole, if the same bytes were that with the same table; nil: it has to be
// looked at. Most calls of one method have such blocks: nothing of them is parsed.
func (d *Decoder) sameAsBefore(block []byte) *remembered {
	now := d.table.state()
	for _, k := range d.known[:min(d.nknow, leadingBlocks)] {
		if len(k.whole) > 0 && k.in == now && bytes.Equal(k.whole, block) {
			return k
		}
	}
	return nil
}

// longest returns which of the remembered runs that the block begins with is the
// longest; -1: there is none.
func (d *Decoder) longest() int {
	best := -1
	for i, k := range d.known[:d.nknow] {
		if k.n > len(d.ends) || k.n < d.indexed || best >= 0 && k.n <= d.known[best].n || string(d.key[:min(len(k.key), len(d.key))]) != k.key {
			continue
		}
		if best = i; k.n == len(d.ends) {
			break
		}
	}
	return best
}

// scanRun finds the run of fields that block begins with and that can be remembered:
// indexed ones, and literals that are not sensitive. It leaves in d.key what they are.
// Each field's part of the key says where it ends, so that a run begins with another if
// its key does. An index of the dynamic table behind a field that enters it ends the
// run, since it does not count from the table as it is now.
func (d *Decoder) scanRun(block []byte) {
	d.key, d.ends, d.indexed = d.key[:0], d.ends[:0], 0
	moved := false
	for pos := 0; pos < len(block) && len(d.ends) < maxRun; {
		b := block[pos]
		e := end{enters: b&0xc0 == 0x40}
		if b&0x80 != 0 {
			v, next := scanInt(block, pos, 7)
			id, ok := d.table.id(v)
			if next < 0 || !ok || moved && v > staticFields {
				return
			}
			d.key = binary.LittleEndian.AppendUint64(d.key, uint64(id))
			pos = next
			if d.indexed == len(d.ends) {
				d.indexed++
			}
		} else {
			bits, mark := uint(4), uint64(literal)
			if e.enters {
				bits, mark = 6, literal|entering
			}
			n := representationLen(block[pos:])
			if !e.enters && b&0xf0 != 0 || n == 0 {
				return
			}
			v, next := scanInt(block, pos, bits)
			if v > staticFields {
				named, ok := d.table.lookup(v)
				if !ok || moved {
					return
				}
				d.key = binary.LittleEndian.AppendUint64(d.key, mark|namedLiteral|uint64(len(named.name)))
				d.key = append(d.key, named.name...)
			} else {
				d.key = binary.LittleEndian.AppendUint64(d.key, mark|v)
			}
			d.key = append(d.key, block[next:pos+n]...)
			pos += n
			moved = moved || e.enters
		}
		if len(d.key) > maxRemembered {
			return
		}
		e.block, e.key = pos, len(d.key)
		d.ends = append(d.ends, e)
	}
}

// literal marks a literal in a key: its name, if that has an index, and then its
// strings as they were sent. entering marks one that is entered in the table, and
// namedLiteral one whose name is that of an entry, of which the key has the length and
// the bytes.
const (
	literal      = 1 << 63
	entering     = 1 << 62
	namedLiteral = 1 << 61
)

// common returns how many fields the block's run has in common with a block before it.
func (d *Decoder) common() (n int) {
	for _, m := range d.missed {
		same := 0
		for same < min(len(m), len(d.key)) && m[same] == d.key[same] {
			same++
		}
		for n < len(d.ends) && d.ends[n].key <= same {
			n++
		}
	}
	return n
}

// met reports whether a block before this one began with the same n+1 fields.
func (d *Decoder) met(n int) bool {
	key := d.key[:d.ends[n].key]
	for _, m := range d.missed {
		if bytes.HasPrefix(m, key) {
			return true
		}
	}
	return false
}

// note keeps the key of the block's run for met.
func (d *Decoder) note() {
	d.missed[d.oldest] = append(d.missed[d.oldest][:0], d.key[:min(d.ends[len(d.ends)-1].key, maxMissed)]...)
	d.oldest = (d.oldest + 1) % missedBlocks
}

// slow decodes a block that begins with nothing remembered, and remembers its run, or
// as much of that as a block before it had, if that has all pseudo-fields.
func (d *Decoder) slow(block []byte) *Malformed {
	n := max(d.indexed, d.common())
	run := 0
	if n > 0 {
		run = d.ends[n-1].block
	}
	*d.h = Header{}
	d.size, d.seen, d.regular, d.framing = 0, 0, false, Framing{}
	d.into = &d.fields
	added := d.table.added
	if reason := d.parse(block[:run]); reason != "" {
		return &Malformed{Conn: true, Reason: reason}
	}
	enters, kept := d.table.last(int(d.table.added - added))
	if run > 0 && run < len(block) {
		d.into = &d.extra
	}
	k := remembered{h: *d.h, n: n, size: d.size, seen: d.seen, regular: d.regular}
	bad := d.finish(block[run:])
	if len(d.fields) > 0 {
		d.h.Fields = append([]Field(nil), d.fields...)
		d.framing.add(d.h.Fields)
	}
	if bad != nil {
		return bad
	}
	if run > 0 && k.size <= maxRemembered && k.seen == d.seen && kept {
		k.key, k.h.Fields = string(d.key[:d.ends[n-1].key]), d.h.Fields
		k.enters, k.framing = enters, d.framing
		d.h.Memo = d.remember(&k)
	} else if len(d.ends) > 0 {
		d.note()
	}
	return nil
}

// remember keeps k, for another if need be, and returns its memo.
func (d *Decoder) remember(k *remembered) *any {
	if d.nknow < len(d.known) {
		d.known[d.nknow] = k
		d.nknow++
	} else {
		d.known[d.next] = k
		d.next = (d.next + 1) % len(d.known)
	}
	return &k.memo
}

// finish decodes the rest of a block.
func (d *Decoder) finish(tail []byte) *Malformed {
	if reason := d.parse(tail); reason != "" {
		return &Malformed{Conn: true, Reason: reason}
	}
	d.h.Extra = d.extra
	if d.bad != (Malformed{}) {
		bad := d.bad
		return &bad
	}
	return nil
}

// BeginLong begins a block that is too long to be gathered. Its parts are decoded by
// DecodeLong as they come: the pseudo-fields that fit the limits go to h, and the table is kept in
// step, so that only the stream is lost.
func (d *Decoder) BeginLong(h *Header) {
	*h = Header{}
	d.h, d.bad, d.inside, d.nfields = h, Malformed{}, false, 0
	d.fields, d.extra = d.fields[:0], d.extra[:0]
	d.size, d.seen, d.regular, d.framing = 0, 0, false, Framing{}
	d.into = &d.fields
}

// DecodeLong decodes what p has of complete representations and returns the rest.
func (d *Decoder) DecodeLong(p []byte) (rest []byte, bad *Malformed) {
	n := completePart(p)
	if reason := d.parse(p[:n]); reason != "" {
		return nil, &Malformed{Conn: true, Reason: reason}
	}
	return p[n:], nil
}

// MinPart is how many bytes of a header block are gathered at least before SkipField. The longest Huffman code has 30 bits, so n bytes
// of a string decode to at least 8n/30: a field of which more are gathered is larger than the table (TableSize), and SkipField need not
// decode it to know that entering it empties the table.
const MinPart = 16 << 10

// SkipField begins to skip the literal that p begins with. p is only a part of it, of at least MinPart bytes. skip is how many bytes
// of the name or value in which p ends are still to come: the caller drops them. placeholder stands for p and these bytes: a literal that
// is not entered in the table, with an empty name and an empty value as far as they have come. What follows is decoded behind it.
func (d *Decoder) SkipField(p []byte) (placeholder []byte, skip int, bad *Malformed) {
	d.bad = Malformed{TooLong: true}
	bits := uint(4)
	switch b := p[0]; {
	case b&0xc0 == 0x40: // entered in the table, which is then empty since the entry is larger (RFC 7541 section 4.4)
		bits = 6
	case b&0xe0 != 0: // no literal
		return nil, 0, &Malformed{Conn: true, Reason: badIndex}
	}
	index, i := scanInt(p, 0, bits)
	if _, ok := d.table.lookup(index); i < 0 || index > 0 && !ok {
		return nil, 0, &Malformed{Conn: true, Reason: badIndex}
	}
	if bits == 6 {
		d.table.clear()
	}
	placeholder = []byte{0}
	if index > 0 {
		placeholder = append(placeholder, 0)
	}
	for len(placeholder) < 3 && i < len(p) {
		n, from := scanInt(p, i, 7)
		if from < 0 {
			break
		}
		placeholder = append(placeholder, 0)
		if left := uint64(len(p) - from); n > left {
			return placeholder, int(min(n-left, math.MaxInt)), nil
		}
		i = from + int(n)
	}
	if len(p)-i >= maxInt { // what is incomplete is a length
		return nil, 0, &Malformed{Conn: true, Reason: badString}
	}
	return append(placeholder, p[i:]...), 0, nil
}

// EndLong ends the block, of which p is left.
func (d *Decoder) EndLong(p []byte) *Malformed {
	defer d.tidy()
	rest, bad := d.DecodeLong(p)
	if bad != nil {
		return bad
	}
	if len(rest) > 0 {
		return &Malformed{Conn: true, Reason: "a header block that cannot be decoded"}
	}
	return &Malformed{TooLong: true, Reason: "a header list beyond the limit"}
}

// tidy keeps the scratch space within bounds.
func (d *Decoder) tidy() {
	if cap(d.fields) > maxKeptFields {
		d.fields = nil
	}
	if cap(d.extra) > maxKeptFields {
		d.extra = nil
	}
	if cap(d.key) > maxKeptKey {
		d.key = nil
	}
}

// emit takes one field as it is decoded.
func (d *Decoder) emit(f Field) {
	if d.bad.TooLong {
		return // the table is still kept in step
	}
	if d.size += len(f.Name) + len(f.Value) + EntryCost; d.size > d.limits.List {
		d.bad = Malformed{TooLong: true, Reason: "a header list beyond the limit"}
		return
	}
	if len(f.Name) > 0 && f.Name[0] == ':' {
		d.pseudo(f)
		return
	}
	d.regular = true
	if d.nfields++; d.nfields > d.limits.Fields {
		d.bad = Malformed{TooLong: true, Reason: "more fields than the limit"}
		return
	}
	if reason := CheckField(f.Name, f.Value, d.limits.Blanks); reason != "" {
		d.bad.Reason = reason
		return
	}
	*d.into = append(*d.into, f)
}

// pseudo takes a pseudo-field (RFC 9113 section 8.3).
func (d *Decoder) pseudo(f Field) {
	h := d.h
	var p pseudo
	switch f.Name {
	case ":method":
		p, h.Method = sawMethod, f.Value
		if f.Value == "" || !isToken(f.Value) { // RFC 9110 section 9.1
			d.bad.Reason = ":method that is no method"
			return
		}
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
		n, err := strconv.ParseUint(f.Value, 10, 16)
		if err != nil || len(f.Value) != 3 || n < 100 { // RFC 9110 section 15
			d.bad.Reason = ":status that is no status"
			return
		}
		h.Status = int(n)
	default:
		d.bad.Reason = "an unknown pseudo-field"
		return
	}
	switch {
	case d.seen&p != 0:
		d.bad.Reason = "a pseudo-field twice"
	case d.regular:
		d.bad.Reason = "a pseudo-field after others"
	case !validValue(f.Value):
		d.bad.Reason = "a pseudo-field's value with control characters"
	}
	d.seen |= p
}
