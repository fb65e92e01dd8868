package guard

import (
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Quarantine lends memory in pages of its own, and keeps memory that is returned inaccessible for as
// long as its bounds allow, so that a read through a slice kept too long faults. It is safe for
// concurrent use.
type Quarantine struct {
	most int64

	mu     sync.Mutex
	mapped int64     // bytes in use and in quarantine, in whole pages
	freed  []retired // inaccessible, oldest first
}

// retired is memory in quarantine and what its owner has said about it.
type retired struct {
	mem  []byte
	info any
}

// NewQuarantine returns a Quarantine that maps at most the given number of bytes at once, in whole
// pages.
func NewQuarantine(most int64) *Quarantine {
	q := &Quarantine{most: most}
	runtime.SetFinalizer(q, (*Quarantine).releaseAll) // lent memory is referred to by slabs that refer to q
	return q
}

// releaseAll unmaps what is in quarantine.
func (q *Quarantine) releaseAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.releaseOldest() {
	}
}

// pages is what n bytes take, in whole pages.
func pages(n int) int64 {
	page := int64(os.Getpagesize())
	return (int64(n) + page - 1) / page * page
}

// mappings counts the mappings of all Quarantines of the process: the kernel bounds them by process
// (vm.max_map_count), and a Go program that has used them up crashes. Half of them are for guards.
type mappings struct {
	most int64
	used atomic.Int64
}

var process = sync.OnceValue(func() *mappings {
	const usual = 65530 // Linux's default
	most := int64(usual)
	if text, err := os.ReadFile("/proc/sys/vm/max_map_count"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			most = n
		}
	}
	return &mappings{most: most / 2}
})

// take reserves a mapping, if one is left.
func (m *mappings) take() bool {
	if m.used.Add(1) <= m.most {
		return true
	}
	m.used.Add(-1)
	return false
}

// Lend returns n bytes in separate pages, or nil if the bounds or the system do not allow it.
func (q *Quarantine) Lend(n int) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	need := pages(n)
	for q.mapped+need > q.most {
		if !q.releaseOldest() {
			return nil
		}
	}
	for !process().take() {
		if !q.releaseOldest() {
			return nil
		}
	}
	mem, err := Alloc(n)
	if err != nil {
		process().used.Add(-1)
		return nil
	}
	q.mapped += need
	return mem
}

// releaseOldest unmaps what has been in quarantine longest; false if there is nothing.
func (q *Quarantine) releaseOldest() bool {
	if len(q.freed) == 0 {
		return false
	}
	oldest := q.freed[0]
	q.freed[0] = retired{}
	q.freed = q.freed[1:]
	if Release(oldest.mem) == nil { // otherwise it stays mapped, and counts
		q.mapped -= pages(len(oldest.mem))
		process().used.Add(-1)
	}
	return true
}

// Retire makes memory from Lend inaccessible. info is what Find returns about it.
func (q *Quarantine) Retire(mem []byte, info any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if Forbid(mem) != nil {
		return // stays mapped and is never lent again
	}
	q.freed = append(q.freed, retired{mem, info})
}

// Find returns what is known of the memory in quarantine that has the address, and its length.
func (q *Quarantine) Find(addr uintptr) (info any, size int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := len(q.freed) - 1; i >= 0; i-- { // the latest is the likeliest
		f := q.freed[i]
		if begin := reflect.ValueOf(f.mem).Pointer(); addr >= begin && addr < begin+uintptr(pages(len(f.mem))) {
			return f.info, len(f.mem), true
		}
	}
	return nil, 0, false
}
