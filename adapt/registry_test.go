package adapt

import (
	"math/rand"
	"reflect"
	"sync"
	"testing"
)

// TestRegistryAgainstMap does the same operations on a registry and on a map.
func TestRegistryAgainstMap(t *testing.T) {
	var r registry[int]
	model := map[uintptr]int{}
	rnd := rand.New(rand.NewSource(1))
	for i := range 200_000 {
		addr := uintptr(1+rnd.Intn(3000)) * 64
		want, known := model[addr]
		switch rnd.Intn(4) {
		case 0, 1:
			r.put(addr, i)
			model[addr] = i
		case 2:
			if v, ok := r.take(addr); ok != known || v != want {
				t.Fatalf("take(%d) = %v %v, want %v %v", addr, v, ok, want, known)
			}
			delete(model, addr)
		case 3:
			if v, ok := r.get(addr); ok != known || v != want {
				t.Fatalf("get(%d) = %v %v, want %v %v", addr, v, ok, want, known)
			}
		}
		if i%1000 == 0 && r.len() != len(model) {
			t.Fatalf("%d entries, want %d", r.len(), len(model))
		}
	}
	for addr, want := range model {
		if v, ok := r.take(addr); !ok || v != want {
			t.Fatalf("take(%d) = %v %v, want %v", addr, v, ok, want)
		}
	}
	if n := r.len(); n != 0 {
		t.Fatalf("%d entries left", n)
	}
}

func TestRegistryWithoutEntries(t *testing.T) {
	var r registry[int]
	if _, ok := r.get(64); ok {
		t.Error("get found something")
	}
	if _, ok := r.take(64); ok {
		t.Error("take found something")
	}
	r.put(64, 1)
	for _, addr := range []uintptr{0, 128} {
		if _, ok := r.take(addr); ok {
			t.Errorf("take found something at %d", addr)
		}
	}
}

// TestRegistryGivesUpBigTables: the memory of a large table is given up after a burst.
func TestRegistryGivesUpBigTables(t *testing.T) {
	var r registry[int]
	const n = 1 << 16
	for i := range n {
		r.put(uintptr(i+1)*4096, i)
	}
	for i := range n {
		r.take(uintptr(i+1) * 4096)
	}
	slots := 0
	for i := range r.shards {
		slots += len(r.shards[i].slots)
	}
	if slots >= dropSlots*len(r.shards) {
		t.Errorf("%d slots kept for nothing", slots)
	}
}

func TestRegistryConcurrently(t *testing.T) {
	var r registry[int]
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 5000 {
				addr := uintptr(g*1000+i%50+1) * 32
				r.put(addr, i)
				if v, ok := r.take(addr); !ok || v != i {
					t.Errorf("take = %v %v, want %v", v, ok, i)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestFirstByte(t *testing.T) {
	b := make([]byte, 100)
	if firstByte(b) != firstByte(b[:0]) || firstByte(b) == 0 {
		t.Error("slices of different length with one first byte have different addresses")
	}
	if firstByte(b) == firstByte(b[1:]) {
		t.Error("an interior slice has the address of the whole")
	}
	if firstByte(nil) != 0 || firstByte([]byte{}) != 0 || firstByte(b[100:]) != 0 {
		t.Error("a slice without memory has an address")
	}
	if n := testing.AllocsPerRun(100, func() { firstByte(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// On 64-bit platforms a shard takes a cache line, so that the locks of two shards share none.
func TestShardsFillACacheLine(t *testing.T) {
	const line = 64
	if size := reflect.TypeFor[shard[*byte]]().Size(); reflect.TypeFor[uintptr]().Size() == 8 && size != line {
		t.Errorf("a shard takes %d bytes, want %d", size, line)
	}
}
