// Package message turns application messages into the bytes of gRPC messages
// and back: codecs, compression, and the five-byte prefix, all on pooled memory.
// It knows no connection.
package message

import (
	"encoding/binary"
	"errors"

	"github.com/tarn-go/tarn"
)

const (
	// PrefixLen is the length of what precedes every gRPC message: a flag and
	// a length in four bytes (PROTOCOL-HTTP2.md, "Length-Prefixed-Message").
	PrefixLen = 5
	// frameHeaderLen is the HTTP/2 frame header (RFC 9113, section 4.1) that
	// the writer may put in front.
	frameHeaderLen = 9
	// Headroom is what a codec leaves free in front of a marshalled message, so
	// that both headers go in front of it without moving it.
	Headroom = PrefixLen + frameHeaderLen
)

// flagCompressed is the only bit of the prefix's first byte with a meaning.
const flagCompressed = 1

// Errors a peer's framing may cause. Each is the peer's fault.
var (
	// ErrTooLarge says that a message is longer than the limit.
	ErrTooLarge = errors.New("rpc: message exceeds the size limit")
	// ErrFlag says that the prefix has an undefined flag.
	ErrFlag = errors.New("rpc: peer sent an unknown flag in a message prefix")
	// ErrTruncated says that the stream ended inside a message.
	ErrTruncated = errors.New("rpc: peer ended the stream inside a message")
)

// Message is the bytes of one message: in Buf while they are contiguous, in
// Chain (then not nil) otherwise. It owns what it holds (rule 1); the zero
// Message is empty.
type Message struct {
	Buf   tarn.Buffer
	Chain *tarn.Chain
	parts *arrival // not nil: Buf lacks fields that came to memory of their own
}

// Len is the length in bytes.
func (m *Message) Len() int {
	if m.parts != nil {
		return m.parts.size
	}
	if m.Chain != nil {
		return m.Chain.Len()
	}
	return m.Buf.Len()
}

// Free gives the memory back and leaves m empty.
func (m *Message) Free() {
	if m.Chain != nil {
		m.Chain.Free()
		m.Chain = nil
	}
	m.Buf.Free()
	m.Buf = tarn.Buffer{}
	if m.parts != nil {
		m.parts.recycle()
		m.parts = nil
	}
}

// join makes the message one Chain if it has parts.
func (m *Message) join() {
	if m.parts != nil {
		m.Chain, m.Buf, m.parts = m.parts.chain(m.Buf), tarn.Buffer{}, nil
	}
}

// Ref gives a second Message with the same bytes, owned by the caller.
func (m *Message) Ref() Message {
	m.join()
	if m.Chain == nil {
		return Message{Buf: m.Buf.Ref()}
	}
	c := m.Chain.Ref()
	return Message{Chain: &c}
}

// Flatten makes the message contiguous, copying only when it is not, and
// returns its bytes, valid until m is freed (rule 3). It borrows m.
func (m *Message) Flatten() []byte {
	m.join()
	if m.Chain != nil {
		// Next of everything cannot be short.
		b, err := m.Chain.Next(m.Chain.Len())
		if err != nil {
			panic("rpc: a chain shorter than its length: " + err.Error())
		}
		m.Chain.Free()
		m.Chain, m.Buf = nil, b
	}
	return m.Buf.Bytes()
}

// IntoChain moves the bytes to the end of dst and leaves m empty.
func (m *Message) IntoChain(dst *tarn.Chain) {
	m.join()
	if m.Chain != nil {
		dst.AppendChain(m.Chain)
		m.Chain = nil
		return
	}
	dst.Append(m.Buf)
	m.Buf = tarn.Buffer{}
}

// Frame puts the five-byte prefix in front of m, in place when there is room. pool is where
// memory for it comes from otherwise.
func (m *Message) Frame(pool *tarn.Pool, kind Kind) {
	n := m.Len()
	if m.Chain == nil {
		b, ok := m.Buf.GrowHead(PrefixLen)
		if !ok && n == 0 {
			m.Buf.Free()
			b, ok = pool.Get(Headroom).Narrow(frameHeaderLen, Headroom), true
		}
		if ok {
			putPrefix(b.Bytes(), n, kind)
			m.Buf = b
			return
		}
		m.Chain = new(tarn.Chain)
		m.Chain.Append(m.Buf)
		m.Buf = tarn.Buffer{}
	}
	m.Chain.SetPool(pool)
	var prefix [PrefixLen]byte
	putPrefix(prefix[:], n, kind)
	m.Chain.PrependBytes(prefix[:])
}

// Kind says in what form a message's bytes are.
type Kind uint8

const (
	Plain      Kind = iota // as the codec made them
	Compressed             // by the stream's grpc-encoding
)

func putPrefix(p []byte, n int, kind Kind) {
	p[0] = byte(kind) & flagCompressed
	binary.BigEndian.PutUint32(p[1:PrefixLen], uint32(n))
}
