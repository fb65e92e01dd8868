package guard

import "sync"

// Quarantine lends memory in pages of its own, and keeps what comes back inaccessible for as long as
// its bound allows, so that a read through a slice kept too long faults. It is safe for concurrent
// use.
type Quarantine struct {
	most int64

	mu     sync.Mutex
	mapped int64    // bytes in use and in quarantine
	freed  [][]byte // inaccessible, oldest first
}

// NewQuarantine returns a Quarantine that maps at most the given number of bytes at once.
func NewQuarantine(most int64) *Quarantine { return &Quarantine{most: most} }

// Lend returns n bytes in pages of their own, or nil if the bound or the system does not allow it.
func (q *Quarantine) Lend(n int) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.freed) > 0 && q.mapped+int64(n) > q.most {
		oldest := q.freed[0]
		q.freed = q.freed[1:]
		if Release(oldest) == nil {
			q.mapped -= int64(len(oldest))
		}
	}
	if q.mapped+int64(n) > q.most {
		return nil
	}
	mem, err := Alloc(n)
	if err != nil {
		return nil
	}
	q.mapped += int64(n)
	return mem
}

// Retire makes memory from Lend inaccessible.
func (q *Quarantine) Retire(mem []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if Forbid(mem) != nil {
		return // stays mapped and is never lent again
	}
	q.freed = append(q.freed, mem)
}
