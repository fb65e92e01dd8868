package h2

import "bytes"

// exactBlocks remembers header blocks that come again byte for byte and whose leading run of indexed
// fields lacks a pseudo-field: nghttp2 sends :path as a literal, for one. A block means the same only
// while the table is the same, so what is remembered counts for one state of it.
type exactBlocks struct {
	known [4]*exactBlock
	next  int
	last  []byte // the block before this one that was not remembered
}

type exactBlock struct {
	block []byte
	table tableState
	remembered
}

// tableState tells states of a table apart.
type tableState struct {
	added   uint64
	limit   int
	entries int
}

func (t *table) state() tableState { return tableState{t.added, t.limit, len(t.entries)} }

// find returns what block decodes to in a state of the table; nil if it is not remembered.
func (x *exactBlocks) find(block []byte, state tableState) *exactBlock {
	for _, k := range x.known {
		if k != nil && k.table == state && bytes.Equal(k.block, block) {
			return k
		}
	}
	return nil
}

// repeated notes a block that is not remembered, and reports whether it is the one before it.
func (x *exactBlocks) repeated(block []byte) bool {
	if len(block) > maxRemembered {
		return false
	}
	if bytes.Equal(x.last, block) {
		return true
	}
	x.last = append(x.last[:0], block...)
	return false
}

// add remembers what a block decodes to, in place of another, and returns its memo.
func (x *exactBlocks) add(block []byte, state tableState, r remembered) *any {
	k := &exactBlock{bytes.Clone(block), state, r}
	x.known[x.next] = k
	x.next = (x.next + 1) % len(x.known)
	return &k.memo
}
