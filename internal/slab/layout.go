package slab

import (
	"sync"
	"unsafe"
)

// This file uses unsafe.Sizeof and unsafe.Offsetof alone, which are constants: it asserts at compile
// time the layouts that other files rely on, on every platform.

// shardPadding makes an arenaShard two cache lines long, so that neighbouring shards share none, not
// even with a processor that prefetches lines in pairs.
const (
	shardSize    = 128
	shardPadding = shardSize - 3*unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(sync.Mutex{}) - unsafe.Sizeof(Key(0))

	_ = uint(shardSize - unsafe.Sizeof(arenaShard{}))
	_ = uint(unsafe.Sizeof(arenaShard{}) - shardSize)
)

// 32-bit platforms align 64-bit words of an allocation at its beginning only: the state must be there.
const _ = -uint(unsafe.Offsetof(Slab{}.state))

// On 64-bit platforms Go's allocator gives a slab 192 bytes, three cache lines, so that the first field begins a line: after a
// collection all slabs of a burst are outside the cache, and each line of one is a miss.
const (
	slabSize   = 192
	slabBelow  = 176 // the allocator's next smaller size
	lineSize   = 64
	pointers32 = (8 - unsafe.Sizeof(uintptr(0))) / 4 // 1 on 32-bit platforms, where a slab is smaller

	_ = uint(slabSize - unsafe.Sizeof(Slab{}))
	_ = uint(unsafe.Sizeof(Slab{}) + pointers32*slabSize - slabBelow - 1)
	_ = uint(lineSize - unsafe.Offsetof(Slab{}.bump))
)
