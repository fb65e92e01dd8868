package tarn

import (
	"fmt"
	"runtime"
	"strings"
)

// MisuseKind says which rule was broken.
type MisuseKind int

const (
	UseAfterFree MisuseKind = iota // a reference was used after it, or the last one to its slab, was freed
	DoubleFree                     // a reference was freed a second time
	Leak                           // a slab became unreachable while referenced: a Free is missing
	ForeignFree                    // memory that did not come from the pool was to be put into it
	Unguarded                      // no page protection was available: the slab is checked as by CheckAll
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
	default:
		return fmt.Sprintf("misuse %d", int(k))
	}
}

// Misuse says what was done to which buffer. Panics of this package about ownership carry a
// *Misuse; what has no caller to panic in goes to PoolConfig.Report. The stacks are empty where
// checks did not track the buffer.
type Misuse struct {
	Kind     MisuseKind
	Op       string // the method, such as "Free"
	Pool     string // the pool's name
	Size     int    // bytes of the slab
	Acquired Stack  // where the reference was made
	Freed    Stack  // where it was freed before
}

// Error describes the misuse, on one line and then stacks where there are any.
func (m *Misuse) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "tarn: %s: ", m.Kind)
	switch m.Kind {
	case Leak:
		fmt.Fprintf(&s, "a %d-byte slab became unreachable while referenced", m.Size)
	case ForeignFree:
		fmt.Fprintf(&s, "%s of %d bytes that did not come from the pool", m.Op, m.Size)
	case Unguarded:
		fmt.Fprintf(&s, "a %d-byte slab comes from ordinary memory", m.Size)
	default:
		fmt.Fprintf(&s, "%s on a reference to a %d-byte slab that was given up before", m.Op, m.Size)
	}
	if m.Pool != "" {
		fmt.Fprintf(&s, " (pool %q)", m.Pool)
	}
	if len(m.Acquired) == 0 && m.Kind != ForeignFree && m.Kind != Unguarded {
		s.WriteString("; run with TARN_CHECK=all to see whose it was")
	}
	if len(m.Acquired) > 0 {
		fmt.Fprintf(&s, "\nacquired at:\n%s", m.Acquired)
	}
	if len(m.Freed) > 0 {
		fmt.Fprintf(&s, "\nfreed first at:\n%s", m.Freed)
	}
	return s.String()
}

// Stack is a call stack as program counters, innermost first, for runtime.CallersFrames.
type Stack []uintptr

// String lists the frames as a panic does, from the first one outside this package's own methods.
func (s Stack) String() string {
	if len(s) == 0 {
		return ""
	}
	var out strings.Builder
	frames := runtime.CallersFrames(s)
	for {
		f, more := frames.Next()
		if out.Len() > 0 || !more || !ownMethod(f.Function) {
			fmt.Fprintf(&out, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return out.String()
		}
	}
}

// ownMethod tells whether a function is a method of this package's types.
func ownMethod(name string) bool {
	method, ok := strings.CutPrefix(name, "github.com/tarn-go/tarn.")
	return ok && (strings.HasPrefix(method, "(*") || strings.HasPrefix(method, "Buffer."))
}
