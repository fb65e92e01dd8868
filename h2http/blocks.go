package h2http

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/tarn-go/tarn/h2"
)

const (
	// cachedBlocks is how many header lists a blockCache holds.
	cachedBlocks = 64
	// maxBlockFields and maxBlockBytes bound one of them.
	maxBlockFields = 32
	maxBlockBytes  = 2 << 10
)

// blockCache recognises header lists that are sent again. Package h2 encodes a Block
// once a connection and repeats some bytes afterwards, and so does the peer that decodes
// it; a list becomes a Block when it is met for the second time, so that one that is
// sent once takes no room in the peer's table.
type blockCache struct {
	mu    sync.RWMutex
	slots [cachedBlocks]blockSlot
}

type blockSlot struct {
	hash  uint64
	block *h2.Block // nil: met once
}

var blockSeed = maphash.MakeSeed()

// find returns a Block of fields; nil: send them one by one.
func (c *blockCache) find(fields []h2.Field) *h2.Block {
	if len(fields) > maxBlockFields {
		return nil
	}
	var h maphash.Hash
	h.SetSeed(blockSeed)
	n := 0
	for i := range fields {
		f := &fields[i]
		n += len(f.Name) + len(f.Value)
		if f.Sensitive || n > maxBlockBytes {
			return nil
		}
		h.WriteString(f.Name)
		h.WriteByte(0)
		h.WriteString(f.Value)
		h.WriteByte(0)
	}
	sum := h.Sum64()
	slot := &c.slots[sum%cachedBlocks]
	c.mu.RLock()
	found := *slot
	c.mu.RUnlock()
	if found.hash == sum && found.block != nil && slices.Equal(found.block.Fields(), fields) {
		return found.block
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot.hash != sum {
		*slot = blockSlot{hash: sum}
		return nil
	}
	if slot.block == nil {
		slot.block = h2.NewBlock(fields...)
	}
	if !slices.Equal(slot.block.Fields(), fields) {
		return nil
	}
	return slot.block
}
