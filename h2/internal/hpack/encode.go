package hpack

import (
	"slices"
	"strings"

	"golang.org/x/net/http2/hpack"
)

const (
	// TableSize is that of a table, in bytes, where the peer permits as much. It is the initial one (RFC 9113 section 6.5.2).
	TableSize = 4096
	// EntryCost is what an entry of a table, and a field of a list, takes beside its name and value, in bytes (RFC 7541 section 4.1).
	EntryCost = 32
)

// staticFields is how many fields the static table has (RFC 7541 appendix A).
const staticFields = 61

// Encoder writes header lists (RFC 7541). What Blocks hold is put in the peer's
// dynamic table while that has room, and nothing is ever evicted, so that a block
// once seen is a few index bytes, the same each time. A field beside a Block is
// literal, except that its name is indexed, until it comes twice with no other value of
// that name between: then it is indexed, too (see repeats). Its tables are short, so they are
// searched, which costs an idle connection less memory than maps. It is used by one
// goroutine at a time.
type Encoder struct {
	table   []entry // what the peer's table holds, the oldest first
	size    int     // its cost
	limit   int     // and bound
	resize  bool    // the next block starts with a size update
	*recall         // nil while the connection is idle
}

// recall is what an encoder can do without.
type recall struct {
	blocks   []blockBytes
	next     int    // the one to be replaced next
	nextLead int    // as Decoder.nextLead
	buf      []byte // the block being encoded
	repeats
}

type entry struct{ name, value string }

// blockBytes is a block as encoded when the table had n entries: good as long as
// it has as many, since indices count from the newest.
type blockBytes struct {
	block *Block
	b     []byte
	n     int
}

// Init makes an Encoder ready.
func (e *Encoder) Init() { e.limit = TableSize }

func (e *Encoder) clear() { e.table, e.size, e.recall = nil, 0, nil }

// SetLimit applies the peer's SETTINGS_HEADER_TABLE_SIZE, of which at most TableSize is used. For a smaller table the encoder starts again with an empty
// one, which it announces by a size update to zero first.
func (e *Encoder) SetLimit(size uint32) {
	n := int(min(size, TableSize))
	if n == e.limit {
		return
	}
	e.clear()
	e.limit = n
	e.resize = true
}

// Trim keeps what the peer's table holds, and nothing that can be encoded again.
func (e *Encoder) Trim() {
	e.table = slices.Clone(e.table)
	e.recall = nil
}

// Encode returns b followed by fields as a header block, valid until the next
// call.
func (e *Encoder) Encode(b *Block, fields []Field) []byte {
	if e.recall == nil {
		e.recall = new(recall)
	}
	if cap(e.buf) > maxKept {
		e.buf = nil
	}
	e.buf = e.buf[:0]
	if e.resize {
		e.resize = false
		e.buf = appendInt(e.buf, 0x20, 5, 0)
		e.buf = appendInt(e.buf, 0x20, 5, uint64(e.limit))
	}
	if b != nil {
		e.block(b)
	}
	for i := range fields {
		e.field(&fields[i])
	}
	return e.buf
}

// block encodes b, indexing what it can, and remembers the bytes if they will be
// the same next time.
func (e *Encoder) block(b *Block) {
	place := -1
	for i := range e.blocks {
		k := &e.blocks[i]
		if k.block != b {
			continue
		}
		if k.n != len(e.table) {
			place = i
			break
		}
		e.buf = append(e.buf, k.b...)
		if i >= leadingBlocks { // as in Decoder.Decode
			e.blocks[i], e.blocks[e.nextLead] = e.blocks[e.nextLead], e.blocks[i]
			e.nextLead = (e.nextLead + 1) % leadingBlocks
		}
		return
	}
	from, before := len(e.buf), len(e.table)
	for i := range b.fields {
		e.indexed(&b.fields[i])
	}
	if len(e.table) != before {
		return
	}
	if place < 0 && len(e.blocks) < maxBlocks {
		place = len(e.blocks)
		e.blocks = append(e.blocks, blockBytes{})
	} else if place < 0 {
		place = e.next
		e.next = (e.next + 1) % maxBlocks
	}
	e.blocks[place] = blockBytes{b, append([]byte(nil), e.buf[from:]...), before}
}

func (e *Encoder) indexed(f *Field) {
	if f.Sensitive || shortCredential(f) {
		e.literal(f)
	} else if i, ok := staticField[Field{Name: f.Name, Value: f.Value}]; ok {
		e.buf = appendInt(e.buf, 0x80, 7, uint64(i))
	} else if i, _ := e.find(f); i >= 0 {
		e.buf = appendInt(e.buf, 0x80, 7, e.index(i))
	} else if e.fits(f) {
		e.insert(f)
	} else {
		e.literal(f)
	}
}

// find returns which entry is f, or -1 and how many have its name.
func (e *Encoder) find(f *Field) (entry, values int) {
	for i := range e.table {
		if e.table[i].name != f.Name {
			continue
		}
		if e.table[i].value == f.Value {
			return i, values
		}
		values++
	}
	return -1, values
}

func (e *Encoder) fits(f *Field) bool {
	return e.size+len(f.Name)+len(f.Value)+EntryCost <= e.limit
}

// index turns an entry's number into the index it has now.
func (e *Encoder) index(entry int) uint64 { return uint64(staticFields + len(e.table) - entry) }

// insert sends f as a literal that the peer puts in its table.
func (e *Encoder) insert(f *Field) {
	i := e.nameIndex(f.Name)
	e.buf = appendInt(e.buf, 0x40, 6, i)
	if i == 0 {
		e.buf = appendString(e.buf, f.Name)
	}
	e.buf = appendString(e.buf, f.Value)
	e.table = append(e.table, entry{f.Name, f.Value})
	e.size += len(f.Name) + len(f.Value) + EntryCost
}

// field sends f by index if the peer's table has it, or as a literal. A literal that repeats the last one of
// its name is put in the table, as is a name seen for the first time, with this value, while half of the table
// is free and has fewer than maxValues entries of the name.
func (e *Encoder) field(f *Field) {
	if f.Sensitive || !mayRepeat(f) {
		e.literal(f)
		return
	}
	r := e.of(f.Name)
	if r.entry > 0 && e.table[r.entry-1].name == f.Name && e.table[r.entry-1].value == f.Value {
		e.buf = appendInt(e.buf, 0x80, 7, e.index(int(r.entry-1)))
		return
	}
	sum := sumOf(f)
	again := r.sum == sum
	*r = repeat{sum: sum}
	switch {
	case again || len(f.Value) <= maxFirst && e.nameIndex(f.Name) == 0:
		i, values := e.find(f)
		if i >= 0 {
			e.buf = appendInt(e.buf, 0x80, 7, e.index(i))
			r.entry = int32(i) + 1
			return
		}
		if values < maxValues && e.size < e.limit/2 && e.fits(f) {
			// The table outlives f, whose strings may be views of memory that is used again.
			e.insert(&Field{Name: strings.Clone(f.Name), Value: strings.Clone(f.Value)})
			r.entry = int32(len(e.table))
			return
		}
	}
	e.literal(f)
}

// literal sends f without touching the table, and never indexed where no intermediary may enter it in its own.
func (e *Encoder) literal(f *Field) {
	i := e.nameIndex(f.Name)
	first := byte(0)
	if f.Sensitive || shortCredential(f) {
		first = 0x10
	}
	e.buf = appendInt(e.buf, first, 4, i)
	if i == 0 {
		e.buf = appendString(e.buf, f.Name)
	}
	if len(f.Value) > longLiteral {
		e.buf = appendString(e.buf, f.Value)
		return
	}
	e.buf = appendInt(e.buf, 0, 7, uint64(len(f.Value)))
	e.buf = append(e.buf, f.Value...) // as it is: it may not be seen again
}

func (e *Encoder) nameIndex(name string) uint64 {
	if i, ok := staticName[name]; ok {
		return uint64(i)
	}
	for i := range e.table {
		if e.table[i].name == name {
			return e.index(i)
		}
	}
	return 0
}

// appendInt appends an integer with a prefix of n bits (RFC 7541 section 5.1).
func appendInt(b []byte, first byte, n uint, v uint64) []byte {
	limit := uint64(1)<<n - 1
	if v < limit {
		return append(b, first|byte(v))
	}
	b = append(b, first|byte(limit))
	for v -= limit; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

// appendString appends a string literal, Huffman-coded where that is shorter.
func appendString(b []byte, s string) []byte {
	if n := hpack.HuffmanEncodeLength(s); n < uint64(len(s)) {
		b = appendInt(b, 0x80, 7, n)
		return hpack.AppendHuffmanString(b, s)
	}
	b = appendInt(b, 0, 7, uint64(len(s)))
	return append(b, s...)
}
