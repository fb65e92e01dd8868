package tarn

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// MisuseKind says which rule was broken.
type MisuseKind int

const (
	UseAfterFree   MisuseKind = iota // a reference was used after it, or the last one to its slab, was freed or handed over
	DoubleFree                       // a reference was freed a second time, or after it was handed over
	Leak                             // a slab became unreachable while referenced: a Free is missing
	ForeignFree                      // memory that did not come from the pool was to be put into it
	Unguarded                        // no page protection was available: the slab is checked as by CheckAll
	WriteAfterFree                   // a slab was written to after its last Free, through a slice kept from Bytes
)

// String is the kind in words.
func (k MisuseKind) String() string {
	switch k {
	case UseAfterFree:
		return "use after free"
	case DoubleFree:
		return "double free"
	case Leak:
		return "leak"
	case ForeignFree:
		return "foreign memory refused"
	case Unguarded:
		return "no page protection"
	case WriteAfterFree:
		return "write after free"
	default:
		return fmt.Sprintf("misuse %d", int(k))
	}
}

// Misuse says what was done to which buffer. Calls panic with a *Misuse of the kinds UseAfterFree and DoubleFree; the other kinds
// have no caller to panic in. PoolConfig.Report receives all of them. The stacks are empty where checks did not track the buffer.
type Misuse struct {
	Kind     MisuseKind
	Op       string // the method, such as "Free"
	Pool     string // the pool's name
	Size     int    // bytes of the slab
	Acquired Stack  // where the reference was made
	Freed    Stack  // where it was freed before, or handed over to a call that takes ownership
	Used     Stack  // where freed memory was accessed, for a fault that Pool.ExplainFault explains
}

// Error describes the misuse, on one line and then stacks where there are any.
func (m *Misuse) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "tarn: %s: ", m.Kind)
	switch m.Kind {
	case Leak:
		fmt.Fprintf(&s, "a slab of %d bytes became unreachable while referenced", m.Size)
	case ForeignFree:
		fmt.Fprintf(&s, "%s of %d bytes that did not come from the pool", m.Op, m.Size)
	case Unguarded:
		fmt.Fprintf(&s, "a slab of %d bytes comes from ordinary memory", m.Size)
	case WriteAfterFree:
		fmt.Fprintf(&s, "a slab of %d bytes was written to after its last Free, through a slice kept from Bytes", m.Size)
	default:
		fmt.Fprintf(&s, "%s on a reference to a slab of %d bytes that was given up before", m.Op, m.Size)
	}
	if m.Pool != "" {
		fmt.Fprintf(&s, " (pool %q)", m.Pool)
	}
	if len(m.Acquired) == 0 && m.Kind != ForeignFree && m.Kind != Unguarded {
		s.WriteString("; run with TARN_CHECK=all to see whose it was")
	}
	if len(m.Used) > 0 {
		fmt.Fprintf(&s, "\nused at:\n%s", m.Used)
	}
	if len(m.Acquired) > 0 {
		fmt.Fprintf(&s, "\nacquired at:\n%s", m.Acquired)
	}
	if len(m.Freed) > 0 {
		fmt.Fprintf(&s, "\nfreed or handed over first at:\n%s", m.Freed)
	}
	return s.String()
}

// reporter counts misuse, and reports it: to the config's Report, or on standard error.
type reporter struct {
	report  func(Misuse)
	misused atomic.Uint64 // Stats.Misused

	mu     sync.Mutex
	places map[place]*MisuseCount // at most maxPlaces, and one for each kind
}

// place is where references come from that were misused in one way: the lines that a reader looks for. Without lines it stands
// for all places of its kind that are not distinguished.
type place struct {
	kind            MisuseKind
	acquired, freed string
}

// maxPlaces bounds the places that are distinguished; those of the others are counted as one of their kind.
const maxPlaces = 64

// MisuseCount says how often references made at one place were misused in one way.
type MisuseCount struct {
	Kind     MisuseKind
	Acquired Stack  // where the first of these references was made; empty where checks did not track them
	Freed    Stack  // where it was freed before
	Count    uint64 // so far; of leaks, an estimate where a sample is tracked
}

// Misuses lists the misuse found so far, the most frequent first: that of up to 64 places, and the rest by kind. Leaks are in it
// where checks tracked them; Stats.Leaked counts all. Safe for concurrent use.
func (p *Pool) Misuses() []MisuseCount {
	r := &p.reporter
	r.mu.Lock()
	list := make([]MisuseCount, 0, len(r.places))
	for _, c := range r.places {
		list = append(list, *c)
	}
	r.mu.Unlock()
	for i := range list {
		if list[i].Kind == Leak {
			list[i].Count *= uint64(p.config.every())
		}
	}
	slices.SortFunc(list, func(a, b MisuseCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind), slices.Compare(a.Acquired, b.Acquired))
	})
	return list
}

// add reports a misuse that no call panics with.
func (r *reporter) add(m Misuse) {
	if r.report == nil {
		r.print(os.Stderr, m)
		return
	}
	r.count(m)
	r.report(m)
}

// panicking reports a misuse that the caller panics with. The panic prints it.
func (r *reporter) panicking(m Misuse) {
	r.count(m)
	if r.report != nil {
		r.report(m)
	}
}

// print writes the first misuse of a kind and place with its stacks, then the second, the fourth, the eighth and so
// on in a line with their number: a program that does it in a loop must not flood its log.
func (r *reporter) print(w io.Writer, m Misuse) {
	at, n := r.count(m)
	switch text := m.Error(); {
	case n == 1:
		fmt.Fprintln(w, strings.TrimSuffix(text, "\n"))
	case n&(n-1) == 0:
		line, _, _ := strings.Cut(text, "\n")
		if at.acquired != "" {
			line += ", acquired at " + at.acquired
		}
		if at.freed != "" {
			line += ", freed at " + at.freed
		}
		fmt.Fprintf(w, "%s (%d of these so far)\n", line, n)
	}
}

// count counts m, and returns how many there were of its kind and place.
func (r *reporter) count(m Misuse) (place, uint64) {
	switch m.Kind {
	case UseAfterFree, DoubleFree, WriteAfterFree:
		r.misused.Add(1)
	}
	at := place{kind: m.Kind}
	if len(m.Acquired) > 0 {
		at.acquired, at.freed = m.Acquired.Title(), m.Freed.Title()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.places[at]
	if c == nil && at.acquired != "" && len(r.places) >= maxPlaces {
		at = place{kind: m.Kind}
		m.Acquired, m.Freed = nil, nil
		c = r.places[at]
	}
	if c == nil {
		if r.places == nil {
			r.places = make(map[place]*MisuseCount)
		}
		c = &MisuseCount{Kind: m.Kind, Acquired: m.Acquired, Freed: m.Freed}
		r.places[at] = c
	}
	c.Count++
	return at, c.Count
}
