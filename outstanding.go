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
	if p.tracks == nil {
		return nil
	}
	gc, now := p.depot.Cycle(), time.Now()
	var list []Outstanding
	for _, c := range p.tracks.Out() {
		o := Outstanding{
			Size: c.Size, Pinned: c.Pinned, Every: p.config.every(),
			Age: now.Sub(c.Since), Cycles: int(gc - c.GC), Stack: c.Acquired,
		}
		refs, seen, made := c.Newest()
		o.Refs, o.Seen, o.Last = refs, seen, made
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b Outstanding) int { return cmp.Compare(b.Age, a.Age) })
	return list
}
