package hyper

import (
	"fmt"
	"math/bits"
	"sync"

	"buf.build/go/hyperpb"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Type is a parser of messages of one type. It is safe for concurrent use.
type Type struct {
	compiled *hyperpb.MessageType
	empty    *hyperpb.Message        // of new Messages; nothing is decoded to it
	arenas   [arenaClasses]sync.Pool // of *arena, by the length of the messages that they were used for
}

// Compile makes the parser of md's messages. It takes milliseconds: a program does it once for each type.
func Compile(md protoreflect.MessageDescriptor) *Type {
	return newType(hyperpb.CompileMessageDescriptor(md))
}

func newType(compiled *hyperpb.MessageType) *Type {
	return &Type{compiled: compiled, empty: hyperpb.NewMessage(compiled)}
}

// Learn makes a parser that is faster for messages like samples, encoded messages of the type: it expects their fields in the order in which these
// have them, and as many elements. It decodes the same.
func (t *Type) Learn(samples ...[]byte) (*Type, error) {
	profile := t.compiled.NewProfile()
	for i, b := range samples {
		if err := hyperpb.NewMessage(t.compiled).Unmarshal(b, hyperpb.WithRecordProfile(profile, 1)); err != nil {
			return nil, fmt.Errorf("hyper: sample %d: %w", i, err)
		}
	}
	return newType(t.compiled.Recompile(profile)), nil
}

// Descriptor is that of the messages.
func (t *Type) Descriptor() protoreflect.MessageDescriptor { return t.compiled.Descriptor() }

// Field is the descriptor of the field called name, for [hyperpb.Message.Get]. Look it up once: it searches. It panics if there is none.
func (t *Type) Field(name protoreflect.Name) protoreflect.FieldDescriptor {
	fd := t.Descriptor().Fields().ByName(name)
	if fd == nil {
		panic(fmt.Sprintf("hyper: caller named a field %q, which %s does not have", name, t.Descriptor().FullName()))
	}
	return fd
}

// New returns an empty message, to be given to RecvMsg or Invoke. It may be used for one message after another.
func (t *Type) New() *Message {
	return &Message{Message: t.empty, of: t}
}

const (
	// arenaClasses is how many sizes of arenas are kept for reuse: those of messages of less than 1 MiB.
	arenaClasses = 21
	// arenaUses bounds how often one is used. hyperpb clears all of an arena each time, and a peer can make it large with a message of many empty
	// fields, so that it costs time in the calls that follow.
	arenaUses = 16
)

// arena is where messages are decoded to.
type arena struct {
	hyperpb.Shared
	uses int
}

// arena returns one for a message of n bytes.
func (t *Type) arena(n int) *arena {
	if class := bits.Len(uint(n)); class < arenaClasses {
		if a, ok := t.arenas[class].Get().(*arena); ok {
			return a
		}
	}
	return new(arena)
}

// recycle frees what is in a.
func (t *Type) recycle(a *arena, n int) {
	a.Free()
	a.uses++
	if class := bits.Len(uint(n)); class < arenaClasses && a.uses < arenaUses {
		t.arenas[class].Put(a)
	}
}
