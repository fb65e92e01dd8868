// Package kept finds what a program keeps of messages that were lent to it, in a sample of them. The fields of a sampled message are separate
// memory of the garbage collector's, so that keeping one does no harm; when the collector has not freed one after the message was
// released, the program has kept it, and its name is reported.
package kept

import (
	"runtime"
	"slices"
	"sync/atomic"
	"weak"
)

// Finder samples the messages of one method.
type Finder struct {
	method string
	every  uint32
	report func(Field)
	n      atomic.Uint32
}

// Field is a field that a handler has kept.
type Field struct {
	Method string // the full name, "/service/method"
	Name   string // the full name of the field, or of the message if it decodes itself
	Bytes  int    // its length
}

// NewFinder returns a Finder of one message in every; every is positive. It calls report on a goroutine of the runtime's, which must not
// be kept waiting.
func NewFinder(method string, every uint32, report func(Field)) *Finder {
	return &Finder{method: method, every: every, report: report}
}

// Sample returns a Sample if the next message is one; nil otherwise, and if f is nil.
func (f *Finder) Sample() *Sample {
	if f == nil || f.n.Add(1)%f.every != 0 {
		return nil
	}
	return &Sample{of: f}
}

// Sample has the fields of one message.
type Sample struct {
	of     *Finder
	fields []field
}

type field struct {
	name   string
	length int
	memory weak.Pointer[byte]
}

// tiny is below which length the runtime allocates several objects as one, which live as long as one of them.
const tiny = 16

// Copy returns a copy of content, the content of a field of that name.
func (s *Sample) Copy(name string, content []byte) []byte {
	if len(content) == 0 {
		return nil
	}
	b := make([]byte, len(content), max(len(content), tiny))
	copy(b, content)
	s.fields = append(s.fields, field{name, len(content), weak.Make(&b[0])})
	return b
}

// cycles is how many garbage collections a field must survive to be reported. A goroutine's stack may refer to it for a while after
// the handler has returned.
const cycles = 3

// Released says that no field may be in use any more.
func (s *Sample) Released() {
	if s != nil && len(s.fields) > 0 {
		s.after(cycles)
	}
}

// after looks at the fields after the next garbage collection, and again after those that follow.
func (s *Sample) after(left int) {
	runtime.AddCleanup(new([tiny]byte), func(left int) {
		s.fields = slices.DeleteFunc(s.fields, func(f field) bool { return f.memory.Value() == nil })
		switch {
		case len(s.fields) == 0:
		case left > 1:
			s.after(left - 1)
		default:
			s.report()
		}
	}, left)
}

// report reports each field once, however often the message has it.
func (s *Sample) report() {
	var done []string
	for _, f := range s.fields {
		if !slices.Contains(done, f.name) {
			done = append(done, f.name)
			s.of.report(Field{Method: s.of.method, Name: f.name, Bytes: f.length})
		}
	}
}
