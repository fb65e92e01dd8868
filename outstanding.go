package tarn

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tarn-go/tarn/internal/pprofile"
)

// Outstanding describes one tracked slab that is out: acquired, and not given back by all of its
// references.
type Outstanding struct {
	Size       int           // bytes asked for
	Pinned     int           // bytes of the slab
	Seen       int           // bytes that its references show, overlaps counted twice, Pinned at most
	Every      int           // how many Gets this one represents: 1, or the N of CheckSampled
	Refs       int           // references to it now
	References []Reference   // the same one by one, oldest first
	Age        time.Duration // since it was acquired
	Cycles     int           // garbage collections since
	Stack      Stack         // where it was acquired
	Last       Stack         // where the reference made last, of those still out, was made
}

// Reference is one reference that is out.
type Reference struct {
	Size  int   // bytes that it shows
	Stack Stack // where it was made, by Get, Ref, Slice or Split
}

// String describes it on one line, then the stack of each reference, equal ones once.
func (o Outstanding) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d bytes (of %d) out for %v, %d reference(s)", o.Size, o.Pinned, o.Age.Round(time.Millisecond), o.Refs)
	for _, h := range Holders([]Outstanding{o}) {
		fmt.Fprintf(&s, "\n%d made at:\n%s", h.References/max(o.Every, 1), h.Stack)
	}
	return s.String()
}

// Outstanding lists what checks know to be out, oldest first: every buffer with CheckAll and
// CheckGuard, a sample with CheckSampled, nothing with CheckOff. Its cost is linear in the number of
// references.
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
		for _, r := range c.Live() {
			o.References = append(o.References, Reference{r.Length, r.Acquired})
			o.Seen = min(o.Seen+r.Length, o.Pinned)
			o.Last = r.Acquired
		}
		if o.Refs = len(o.References); o.Refs > 0 { // otherwise its last Free is under way
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b Outstanding) int { return cmp.Compare(b.Age, a.Age) })
	return list
}

// Holder is what references made at one place hold.
type Holder struct {
	Stack      Stack         // where the references were made
	References int           // of that stack; an estimate where a sample is tracked
	Bytes      int64         // that they show
	Pinned     int64         // of the slabs that they hold; a slab held from several places counts for each
	Oldest     time.Duration // since the oldest of these slabs was acquired
}

// String describes it on one line, which ends with the stack's title, then the stack.
func (h Holder) String() string {
	return fmt.Sprintf("%d reference(s) to %d bytes, which hold %d, out for %v at most, made by %s at:\n%s",
		h.References, h.Bytes, h.Pinned, h.Oldest.Round(time.Millisecond), h.Stack.Title(), h.Stack)
}

// Holders groups the references of a list by the stack that made them, the most bytes held first:
// who has to free. Where a sample is tracked, figures are scaled up by Outstanding.Every.
func Holders(list []Outstanding) []Holder {
	byStack := map[string]*Holder{}
	for _, o := range list {
		every := max(o.Every, 1)
		held := map[*Holder]bool{} // by this slab
		for _, r := range o.References {
			key := fmt.Sprint([]uintptr(r.Stack))
			h := byStack[key]
			if h == nil {
				h = &Holder{Stack: r.Stack}
				byStack[key] = h
			}
			h.References += every
			h.Bytes += int64(every) * int64(r.Size)
			if !held[h] {
				held[h] = true
				h.Pinned += int64(every) * int64(o.Pinned)
				h.Oldest = max(h.Oldest, o.Age)
			}
		}
	}
	holders := make([]Holder, 0, len(byStack))
	for _, h := range byStack {
		holders = append(holders, *h)
	}
	slices.SortFunc(holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Pinned, a.Pinned), cmp.Compare(b.Oldest, a.Oldest), slices.Compare(a.Stack, b.Stack))
	})
	return holders
}

// WriteProfile writes who holds the buffers of some pools that are out, as a profile that go tool pprof
// reads: for each stack that made references, how many there are and how many bytes of slabs they
// hold, with the pool's name as the label "pool". Where a sample is tracked, figures are scaled up. It
// has what Outstanding has: nothing with CheckOff. An error is w's own.
//
// The profile tarn.buffers of runtime/pprof counts tracked slabs by the stack of their Get; that
// package's profiles have no bytes, scales or labels.
func WriteProfile(w io.Writer, pools ...*Pool) error {
	var samples []pprofile.Sample
	for _, p := range pools {
		for _, h := range Holders(p.Outstanding()) {
			samples = append(samples, pprofile.Sample{
				Stack: trimCore(h.Stack), Values: []int64{int64(h.References), h.Pinned}, Key: "pool", Label: p.Name(),
			})
		}
	}
	types := []pprofile.ValueType{{Type: "references", Unit: "count"}, {Type: "pinned", Unit: "bytes"}}
	return pprofile.Write(w, time.Now(), types, samples)
}

// trimCore cuts the innermost frames that are of the core.
func trimCore(s Stack) Stack {
	for len(s) > 1 {
		for f := range s[:1].frames {
			if !coreFrame(f) {
				return s
			}
		}
		s = s[1:]
	}
	return s
}
