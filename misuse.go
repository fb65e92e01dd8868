package tarn

import (
	"fmt"
	"strings"
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
