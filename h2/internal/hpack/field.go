package hpack

// Field is one field of a header list. Names are lower case (RFC 9113 section 8.2).
type Field struct {
	Name, Value string
	// Sensitive fields are sent as never-indexed (RFC 7541 section 7.1.3).
	Sensitive bool
}

// Header is a received header list: a request, a response, or trailers. It is
// valid until the next is decoded, but Fields and every string in it may be kept.
type Header struct {
	Method, Scheme, Path, Authority string // request pseudo-fields, else empty
	Protocol                        string // :protocol of an extended CONNECT (RFC 8441 section 4)
	Status                          int    // of a response; 0 for requests and trailers
	Truncated                       bool   // the fields are missing: the caller's to set
	Length                          int    // in bytes, as compressed by the peer

	// Fields are the regular fields in order. They are shared with equal header
	// lists: they may be kept, and must not be changed.
	Fields []Field
	// Extra are regular fields that follow Fields, apart because they differ from
	// call to call. The slice is valid until the next list is decoded.
	Extra []Field

	// Memo is a place where the caller may keep what it derived from all but
	// Extra: the Decoder hands the same Memo out with each later header list
	// that has the same pseudo-fields and Fields. It is nil when this list is not
	// remembered. It belongs to the Decoder's goroutine.
	Memo *any
}

// Get returns the value of the first field called name.
func (h *Header) Get(name string) (value string, ok bool) {
	for i := range h.Fields {
		if h.Fields[i].Name == name {
			return h.Fields[i].Value, true
		}
	}
	for i := range h.Extra {
		if h.Extra[i].Name == name {
			return h.Extra[i].Value, true
		}
	}
	return "", false
}

// Block is a header list prepared for sending often: each connection encodes it
// once, indexes its fields in the peer's table, and then repeats some bytes. Use
// one for what many calls share (a method's request, the usual response, the
// trailers of success) and pass what differs as fields beside it. It is immutable
// and safe for concurrent use.
type Block struct {
	fields []Field
}

// NewBlock prepares fields: pseudo-fields first. It keeps a copy.
func NewBlock(fields ...Field) *Block {
	return &Block{fields: append([]Field(nil), fields...)}
}

// Fields returns the fields, which must not be changed.
func (b *Block) Fields() []Field { return b.fields }
