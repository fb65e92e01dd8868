package hyper

import (
	"buf.build/go/hyperpb"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Message is a message of a [Type]: read-only, by the methods of hyperpb's. It implements [rpc.LentMessage].
type Message struct {
	*hyperpb.Message // nil after ReleaseLent, so that a handler that keeps a Message panics when it reads it
	of               *Type
	arena            *arena // of lent memory; nil: the garbage collector's
	n                int    // bytes of the message
}

var _ rpc.LentMessage = (*Message)(nil)

// Reset makes the message empty.
func (m *Message) Reset() { m.Message = hyperpb.NewMessage(m.of.compiled) }

// Unmarshal replaces the content by what b says, in memory of the garbage collector's.
func (m *Message) Unmarshal(b []byte, options ...hyperpb.UnmarshalOption) error {
	m.Reset()
	return m.Message.Unmarshal(b, options...)
}

// ProtoReflect is the message by reflection.
func (m *Message) ProtoReflect() protoreflect.Message {
	if m.Message == m.of.empty {
		m.Reset() // the caller may decode to it
	}
	return m.Message
}

// UnmarshalLent is called by package rpc.
func (m *Message) UnmarshalLent(b []byte) error {
	m.arena, m.n = m.of.arena(len(b)), len(b)
	m.Message = m.arena.NewMessage(m.of.compiled)
	if err := m.Message.Unmarshal(b, hyperpb.WithAllowAlias(aliases)); err != nil {
		return err
	}
	return m.Initialized()
}

// ReleaseLent is called by package rpc.
func (m *Message) ReleaseLent() {
	if m.arena != nil {
		m.Message = nil
		m.of.recycle(m.arena, m.n)
		m.arena = nil
	}
}
