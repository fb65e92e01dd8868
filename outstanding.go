package tarn

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Outstanding describes one tracked slab that is out: acquired, and not given back by all of its
// references.
type Outstanding struct {
	Size   int           // bytes asked for
	Pinned int           // bytes of the slab
	Seen   int           // bytes that its references show, overlaps counted twice, Pinned at most
	Every  int           // how many Gets this one stands for: 1, or the N of CheckSampled
	Refs   int           // references to it now
	Age    time.Duration // since it was acquired
	Cycles int           // garbage collections since
	Stack  Stack         // where it was acquired
	Last   Stack         // where the reference made last, of those still out, was made
}

// String describes it on one line, then the stack.
func (o Outstanding) String() string {
	return fmt.Sprintf("%d bytes (of %d) out for %v, %d reference(s), acquired at:\n%s", o.Size, o.Pinned, o.Age.Round(time.Millisecond), o.Refs, o.Stack)
}

// Outstanding lists what checks know to be out, oldest first: every buffer with CheckAll and
// CheckGuard, a sample with CheckSampled, nothing with CheckOff. Its cost is linear in the list.
func (p *Pool) Outstanding() []Outstanding {
	if p.checks == nil {
		return nil
	}
	cycle, now := p.cycle.Load(), time.Now()
	p.checks.mu.Lock()
	list := make([]Outstanding, 0, len(p.checks.out))
	for t := range p.checks.out {
		o := Outstanding{
			Size: t.size, Pinned: t.pinned, Every: p.checks.every,
			Age: now.Sub(t.since), Cycles: int(cycle - t.cycle), Stack: t.acquired,
		}
		o.Refs, o.Seen, o.Last = t.newest()
		list = append(list, o)
	}
	p.checks.mu.Unlock()
	slices.SortFunc(list, func(a, b Outstanding) int { return cmp.Compare(b.Age, a.Age) })
	return list
}

// newest is how many references live, what they show, and where the youngest of them was made.
func (t *track) newest() (refs, seen int, made Stack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	youngest := uint32(0)
	for id, r := range t.refs {
		if r.freed != nil {
			continue
		}
		seen += r.length
		if id > youngest {
			youngest, made = id, r.acquired
		}
	}
	return t.live, min(seen, t.pinned), made
}
