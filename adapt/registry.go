package adapt

import (
	"reflect"
	"sync"
)

const (
	shardBits = 5
	minSlots  = 8
	// dropSlots is the size from which an empty table is given up rather than kept for the next burst.
	dropSlots = 1024
	// golden is 2^64 divided by the golden ratio: Fibonacci hashing spreads aligned addresses.
	golden = 0x9E3779B97F4A7C15
)

// addrOf returns the address p points at as a number. It keeps nothing alive; a registry therefore
// never trusts an address alone, unless what it names is held by the entry.
func addrOf[T any](p *T) uintptr {
	return reflect.ValueOf(p).Pointer()
}

// firstByte returns the address of the memory behind b, whatever its length, and 0 if there is none.
func firstByte(b []byte) uintptr {
	if cap(b) == 0 {
		return 0
	}
	return addrOf(&b[:1][0])
}

// registry maps addresses to values. It is safe for concurrent use and allocates only to grow.
type registry[V any] struct {
	shards [1 << shardBits]shard[V]
}

type shard[V any] struct {
	mu    sync.Mutex
	slots []slot[V] // a power of two of them, at most half full; linear probing
	used  int
	_     [24]byte // keeps the next shard's lock off this cache line; TestShardsFillACacheLine
}

type slot[V any] struct {
	addr uintptr // 0: empty
	v    V
}

func hash(addr uintptr) uint64 { return uint64(addr) * golden }

func (r *registry[V]) shard(h uint64) *shard[V] { return &r.shards[h>>(64-shardBits)] }

// put maps addr to v, in place of what it was mapped to before.
func (r *registry[V]) put(addr uintptr, v V) {
	h := hash(addr)
	s := r.shard(h)
	s.mu.Lock()
	if s.used*2 >= len(s.slots) {
		s.grow()
	}
	i := s.find(addr)
	if s.slots[i].addr == 0 {
		s.used++
	}
	s.slots[i] = slot[V]{addr, v}
	s.mu.Unlock()
}

// get returns what addr is mapped to.
func (r *registry[V]) get(addr uintptr) (v V, ok bool) {
	s := r.shard(hash(addr))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == 0 || addr == 0 {
		return v, false
	}
	e := &s.slots[s.find(addr)]
	return e.v, e.addr != 0
}

// take removes addr and returns what it was mapped to: a reference is to be freed.
func (r *registry[V]) take(addr uintptr) (v V, ok bool) {
	s := r.shard(hash(addr))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == 0 || addr == 0 {
		return v, false
	}
	i := s.find(addr)
	v, ok = s.slots[i].v, s.slots[i].addr != 0
	if ok {
		s.remove(i)
	}
	return v, ok
}

// len counts the addresses mapped. It is for tests.
func (r *registry[V]) len() int {
	n := 0
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		n += s.used
		s.mu.Unlock()
	}
	return n
}

// home is the slot at which the search for addr begins: hash bits below those that chose the shard.
func (s *shard[V]) home(addr uintptr) int {
	return int(hash(addr)>>(64-shardBits-24)) & (len(s.slots) - 1)
}

// find returns the slot of addr, or the empty slot where it would go. There always is an empty one.
func (s *shard[V]) find(addr uintptr) int {
	for i := s.home(addr); ; i = (i + 1) & (len(s.slots) - 1) {
		if a := s.slots[i].addr; a == addr || a == 0 {
			return i
		}
	}
}

// remove empties slot i and moves the entries behind it up, so that no search ends early at the gap
// and no tombstones pile up.
func (s *shard[V]) remove(i int) {
	mask := len(s.slots) - 1
	for j := (i + 1) & mask; s.slots[j].addr != 0; j = (j + 1) & mask {
		// The entry at j may move to the gap at i unless its home lies behind i, up to j.
		if (j-s.home(s.slots[j].addr))&mask >= (j-i)&mask {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot[V]{}
	s.used--
	if s.used == 0 && len(s.slots) >= dropSlots {
		s.slots = nil
	}
}

func (s *shard[V]) grow() {
	old := s.slots
	s.slots = make([]slot[V], max(minSlots, 2*len(old)))
	for _, e := range old {
		if e.addr != 0 {
			s.slots[s.find(e.addr)] = e
		}
	}
}
