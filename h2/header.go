package h2

import "github.com/tarn-go/tarn/h2/internal/hpack"

// Field is one field of a header list: its Name, lower case (RFC 9113 section 8.2), its Value, and whether it is
// Sensitive, that is, sent as never-indexed (RFC 7541 section 7.1.3).
type Field = hpack.Field

// Header is a received header list: a request, a response, or trailers. It is valid during OnHeaders only, but Fields and
// every string in it may be kept.
//
// Method, Scheme, Path, Authority and Protocol (of an extended CONNECT, RFC 8441 section 4) are a request's pseudo-fields,
// else empty; Status is a response's, else 0. Fields are the regular fields in order. They are shared with equal header
// lists: they may be kept, and must not be changed. Extra are regular fields that follow Fields, apart because they differ
// from call to call; the slice is valid during the callback only. Get returns the first of either by its name.
//
// Memo is a place where the handler may keep what it derived from all but Extra: the connection hands the same Memo out
// with each later header list that has the same pseudo-fields and Fields. It is nil when this list is not remembered. It
// is for use within callbacks only.
//
// Truncated says that the fields are missing: see DeliverLong. Length is in bytes, as compressed by the peer.
type Header = hpack.Header

// Block is a header list prepared for sending often: each connection encodes it once, indexes its fields in the peer's
// table, and then repeats some bytes. It is for what many calls share (a method's request, the usual response, the
// trailers of success); what differs is passed as fields beside it. It is immutable and safe for concurrent use. Fields
// returns its fields, which must not be changed.
type Block = hpack.Block

// NewBlock prepares fields: pseudo-fields first. It keeps a copy.
func NewBlock(fields ...Field) *Block { return hpack.NewBlock(fields...) }
