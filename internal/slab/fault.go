package slab

import "github.com/tarn-go/tarn/internal/track"

// Kind says which rule was broken.
type Kind int

const (
	UseAfterFree   Kind = iota // a reference was used after it was freed
	DoubleFree                 // a reference was freed a second time
	Leak                       // a slab became unreachable while referenced
	ForeignFree                // memory that is not of the depot was to be put into it
	Unguarded                  // a slab has no page protection, although the depot should guard it
	WriteAfterFree             // a slab was written to after its last Free
)

// Fault is what was done wrong to which slab. The stacks are empty where checks did not track it.
type Fault struct {
	Kind     Kind
	Op       string    // the method, such as "Free"
	Size     int       // bytes of the slab
	Acquired []uintptr // where the reference was made
	Freed    []uintptr // where it was freed before
}

// panicStale panics about the use of a key that was freed.
func (s *Slab) panicStale(key Key, op string) {
	f := Fault{Kind: UseAfterFree, Op: op, Size: len(s.mem)}
	if op == "Free" {
		f.Kind = DoubleFree
	}
	if id := key.Identity(); id != 0 {
		if c := s.track.Load().Find(generation(uint64(key))); c != nil {
			f.Acquired, f.Freed = c.History(id)
		}
	}
	panic(s.depot.config.Fault(f))
}

// FaultAt describes the slab in quarantine whose memory has the address.
func (d *Depot) FaultAt(addr uintptr) (Fault, bool) {
	if d.config.Guard == nil {
		return Fault{}, false
	}
	info, size, ok := d.config.Guard.Find(addr)
	if !ok {
		return Fault{}, false
	}
	f := Fault{Kind: UseAfterFree, Op: "an access through a slice kept from Bytes", Size: size}
	if c, _ := info.(*track.Cycle); c != nil {
		f.Acquired, f.Freed = c.Acquired, c.Ended()
	}
	return f, true
}

// leaked gives the charge of a slab back that was collected while referenced, and reports the leak if
// the slab was tracked. All leaks are counted.
func (d *Depot) leaked(s *Slab) {
	if s.charge != 0 {
		d.config.Budget.Refund(s.charge)
	}
	if s.pending&pendingUntrack == 0 {
		return
	}
	c := s.track.Load()
	d.config.Tracks.End(c)
	f := Fault{Kind: Leak, Op: "Get", Size: len(s.mem), Acquired: c.Acquired}
	if live := c.Live(); len(live) > 0 {
		f.Acquired = live[0].Acquired // the reference that is out, which need not be that of Get
	}
	d.config.Report(f)
}
