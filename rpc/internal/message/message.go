// Package message encodes application messages as gRPC messages and decodes them: codecs, compression, and
// the five-byte prefix, all in pooled memory. It uses no connection.
package message

import (
	"encoding/binary"
	"errors"

	"github.com/tarn-go/tarn"
)

const (
	// PrefixLen is the length of the prefix of every gRPC message: a flag and a length in four bytes
	// (PROTOCOL-HTTP2.md, "Length-Prefixed-Message").
	PrefixLen = 5
	// frameHeaderLen is the HTTP/2 frame header (RFC 9113, section 4.1) that
	// the writer may put in front.
	frameHeaderLen = 9
	// Headroom is the space that a codec leaves in front of a marshalled message, so that both headers can be
	// written there without moving it.
	Headroom = PrefixLen + frameHeaderLen
)

// flagCompressed is the only defined bit of the prefix's first byte.
const flagCompressed = 1

// Errors in a peer's framing.
var (
	// ErrTooLarge is returned when a message is longer than the limit.
	ErrTooLarge = errors.New("rpc: message exceeds the size limit")
	// ErrFlag is returned when the prefix has an undefined flag.
	ErrFlag = errors.New("rpc: peer sent an unknown flag in a message prefix")
	// ErrTruncated is returned when the stream ended inside a message.
	ErrTruncated = errors.New("rpc: peer ended the stream inside a message")
)

// Message is the bytes of one message: in Buf while they are contiguous, in Chain (then not nil) otherwise.
// It owns its memory (rule 1); the zero Message is empty.
type Message struct {
	Buf   tarn.Buffer
	Chain *tarn.Chain
	parts *arrival // not nil: Buf lacks the fields that were received separately
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

// Free frees the memory and leaves m empty.
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

// Ref returns a second Message with the same bytes, to be freed by the caller. It borrows m.
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
		// Next of the whole length cannot be short.
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

// Frame writes the five-byte prefix in front of m, in place when there is space, otherwise into memory from
// pool.
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

// Kind says how a message's bytes are encoded.
type Kind uint8

const (
	Plain      Kind = iota // as the codec encoded them
	Compressed             // compressed by the stream's grpc-encoding
)

func putPrefix(p []byte, n int, kind Kind) {
	p[0] = byte(kind) & flagCompressed
	binary.BigEndian.PutUint32(p[1:PrefixLen], uint32(n))
}
