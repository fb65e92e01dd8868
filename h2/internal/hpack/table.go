package hpack

import (
	"golang.org/x/net/http2/hpack"
)

// table is a decoder's dynamic table (RFC 7541 section 2.3.2), the oldest entry
// first.
type table struct {
	entries []tableEntry
	array   []tableEntry // what entries is the end of, empty: evicted ones leave room at its beginning
	added   uint64       // entries so far
	size    int          // its cost
	limit   int          // and bound
	ids     fieldID      // ids that have been given
}

// tableEntry is an entry of a decoder's table.
type tableEntry struct {
	entry
	id fieldID // 0: id has not been called for it
}

// id returns the name of the field with index i, which stays the same while other entries are added. What differs from call to call is never named, because no block has it by its index.
func (t *table) id(i uint64) (id fieldID, ok bool) {
	switch {
	case i == 0 || i > staticFields+uint64(len(t.entries)):
		return 0, false
	case i <= staticFields:
		return fieldID(i), true
	}
	e := &t.entries[uint64(len(t.entries))-(i-staticFields)]
	if e.id == 0 {
		t.ids++
		e.id = staticFields + t.ids
	}
	return e.id, true
}

// lookup returns the field with index i, static ones included.
func (t *table) lookup(i uint64) (e entry, ok bool) {
	switch {
	case i == 0 || i > staticFields+uint64(len(t.entries)):
		return entry{}, false
	case i <= staticFields:
		f := &staticTable[i-1]
		return entry{f.Name, f.Value}, true
	}
	return t.entries[uint64(len(t.entries))-(i-staticFields)].entry, true
}

// tableState differs when the content of a table does: entries enter at one end and leave at the other.
type tableState struct {
	added uint64
	count int
}

func (t *table) state() tableState { return tableState{t.added, len(t.entries)} }

func (e entry) cost() int { return len(e.name) + len(e.value) + EntryCost }

// add puts e in and the oldest out that have no room beside it (section 4.4).
func (t *table) add(e entry) {
	if n := len(t.entries); n == cap(t.entries) && n <= cap(t.array)/2 {
		array := t.array[:cap(t.array)]
		copy(array, t.entries)
		clear(t.entries)
		t.entries = array[:n]
	}
	full := len(t.entries) == cap(t.entries)
	t.entries = append(t.entries, tableEntry{entry: e})
	if full {
		t.array = t.entries[:0]
	}
	t.added++
	t.size += e.cost()
	t.evict()
}

// last returns the last n entries that were added; false: not all of them are in the
// table any more.
func (t *table) last(n int) ([]entry, bool) {
	if n > len(t.entries) {
		return nil, false
	}
	es := make([]entry, n)
	for i, e := range t.entries[len(t.entries)-n:] {
		es[i] = e.entry
	}
	return es, true
}

func (t *table) resize(limit int) {
	t.limit = limit
	t.evict()
}

// clear evicts all entries, as adding one that is larger than the table does (RFC 7541 section 4.4).
func (t *table) clear() {
	t.entries, t.array, t.size = nil, nil, 0
}

func (t *table) evict() {
	n := 0
	for t.size > t.limit {
		t.size -= t.entries[n].cost()
		t.entries[n] = tableEntry{}
		n++
	}
	if t.entries = t.entries[n:]; len(t.entries) == 0 {
		t.entries, t.array = nil, nil
	}
}

// pack returns the table as a header block that makes it again.
func (t *table) pack() string {
	var b []byte
	if t.limit != TableSize {
		b = appendInt(b, 0x20, 5, uint64(t.limit))
	}
	for _, e := range t.entries {
		i := staticName[e.name]
		b = appendInt(b, 0x40, 6, uint64(i))
		if i == 0 {
			b = appendString(b, e.name)
		}
		b = appendString(b, e.value)
	}
	return string(b)
}

// parse decodes the representations of p one by one (RFC 7541 section 6). The
// result says what is wrong with p; empty: nothing.
func (d *Decoder) parse(p []byte) (reason string) {
	for len(p) > 0 && reason == "" {
		switch b := p[0]; {
		case b&0x80 != 0:
			p, reason = d.parseIndexed(p)
		case b&0x40 != 0:
			p, reason = d.parseLiteral(p, 6)
		case b&0x20 == 0:
			p, reason = d.parseLiteral(p, 4)
		case d.inside && d.table.size > 0:
			return "a change of the table's size inside a block"
		default:
			v, n := scanInt(p, 0, 5)
			if n < 0 || v > TableSize {
				return "a table of more than the size offered"
			}
			d.table.resize(int(v))
			p = p[n:]
			continue // a block may begin with two: the smallest size, and the last (RFC 7541 section 4.2)
		}
		d.inside = true
	}
	return reason
}

const (
	badIndex   = "an index beyond the table"
	badString  = "an incomplete string"
	badHuffman = "a string that is not Huffman-coded as it says"
)

func (d *Decoder) parseIndexed(p []byte) (rest []byte, reason string) {
	v, n := scanInt(p, 0, 7)
	e, ok := d.table.lookup(v)
	if n < 0 || !ok {
		return nil, badIndex
	}
	d.emit(Field{Name: e.name, Value: e.value})
	return p[n:], ""
}

// parseLiteral takes a literal whose index has a prefix of bits: 6 when it enters
// the table. What is neither to be entered nor wanted is skipped.
func (d *Decoder) parseLiteral(p []byte, bits uint) (rest []byte, reason string) {
	wanted, take := bits == 6 || !d.bad.TooLong, parseString
	if !wanted {
		take = skipString
	}
	sensitive := bits == 4 && p[0]&0x10 != 0
	v, n := scanInt(p, 0, bits)
	if n < 0 {
		return nil, badIndex
	}
	p = p[n:]
	var e entry
	if v > 0 {
		named, ok := d.table.lookup(v)
		if !ok {
			return nil, badIndex
		}
		e.name = named.name
	} else if e.name, p, reason = take(p); reason != "" {
		return nil, reason
	}
	if e.value, p, reason = take(p); reason != "" {
		return nil, reason
	}
	if bits == 6 {
		d.table.add(e)
	}
	if wanted {
		d.emit(Field{Name: e.name, Value: e.value, Sensitive: sensitive})
	}
	return p, ""
}

// parseString takes a string literal (RFC 7541 section 5.2).
func parseString(p []byte) (s string, rest []byte, reason string) {
	raw, rest, coded, ok := cutString(p)
	switch {
	case !ok:
		return "", nil, badString
	case !coded:
		return string(raw), rest, ""
	}
	s, err := hpack.HuffmanDecodeToString(raw)
	if err != nil {
		return "", nil, badHuffman
	}
	return s, rest, ""
}

// skipString is parseString of one that is not wanted.
func skipString(p []byte) (s string, rest []byte, reason string) {
	if _, rest, _, ok := cutString(p); ok {
		return "", rest, ""
	}
	return "", nil, badString
}

// cutString finds where the string literal that p begins with ends.
func cutString(p []byte) (raw, rest []byte, coded, ok bool) {
	if len(p) == 0 {
		return nil, nil, false, false
	}
	v, n := scanInt(p, 0, 7)
	if n < 0 || v > uint64(len(p)-n) {
		return nil, nil, false, false
	}
	end := n + int(v)
	return p[n:end], p[end:], p[0]&0x80 != 0, true
}
