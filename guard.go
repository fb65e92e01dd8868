package tarn

import (
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn/internal/guard"
)

// guardian lends pages of their own to slabs, and keeps freed ones inaccessible in a quarantine, so
// that whoever reads them by a slice kept too long faults there and then.
type guardian struct {
	most int64

	mu         sync.Mutex
	mapped     int64    // bytes in use and in quarantine
	quarantine [][]byte // oldest first
	told       atomic.Bool
}

func newGuardian(most int64) *guardian { return &guardian{most: most} }

// lend returns n bytes in pages of their own, nil if there are none to be had.
func (g *guardian) lend(n int) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.quarantine) > 0 && g.mapped+int64(n) > g.most {
		oldest := g.quarantine[0]
		g.quarantine = g.quarantine[1:]
		if guard.Release(oldest) == nil {
			g.mapped -= int64(len(oldest))
		}
	}
	if g.mapped+int64(n) > g.most {
		return nil
	}
	mem, err := guard.Alloc(n)
	if err != nil {
		return nil
	}
	g.mapped += int64(n)
	return mem
}

// retire takes pages that lend gave into quarantine.
func (g *guardian) retire(mem []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if guard.Forbid(mem) != nil {
		return // stays mapped and poisoned: never reused, so still nobody else's
	}
	g.quarantine = append(g.quarantine, mem)
}

// makeGuarded makes a slab whose memory is lent by the guardian, or an ordinary one, once with a
// word about it, where that is not possible. Either kind is not kept. A leaked one is never
// unmapped, as slices of it may be in use.
func (p *Pool) makeGuarded(c *class) *slab {
	mem := p.guard.lend(c.size)
	due := dueGuard
	if mem == nil {
		if p.guard.told.CompareAndSwap(false, true) { // Report may itself use the pool
			p.teller.tell(Misuse{Kind: Unguarded, Op: "Get", Pool: p.Name(), Size: c.size})
		}
		mem, due = make([]byte, c.size), 0
	}
	s := newFleetingSlab(p, c, mem)
	s.due = due
	p.own(int64(c.size))
	c.gets.Add(1)
	return s
}
