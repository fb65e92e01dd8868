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
