package proto

// Dialect is a revision of the protocol (2.2.3).
type Dialect uint16

// The dialects of SMB 2 and 3 (2.2.3, 2.2.4).
const (
	Dialect202      Dialect = 0x0202
	Dialect210      Dialect = 0x0210
	Dialect300      Dialect = 0x0300
	Dialect302      Dialect = 0x0302
	Dialect311      Dialect = 0x0311
	DialectWildcard Dialect = 0x02ff // answers a multi-protocol SMB1 negotiate only
)

// String is the dialect as people write it, "3.1.1".
func (d Dialect) String() string {
	switch d {
	case Dialect202:
		return "2.0.2"
	case Dialect210:
		return "2.1"
	case Dialect300:
		return "3.0"
	case Dialect302:
		return "3.0.2"
	case Dialect311:
		return "3.1.1"
	}
	return "dialect " + hex(uint32(d))
}

// SecurityMode says whether signing is possible or required (2.2.3).
type SecurityMode uint16

// Security modes (2.2.3, 2.2.4).
const (
	SigningEnabled  SecurityMode = 1
	SigningRequired SecurityMode = 2
)

// Capabilities of either side (2.2.3, 2.2.4).
type Capabilities uint32

// Capabilities (2.2.3, 2.2.4).
const (
	CapDFS               Capabilities = 0x01
	CapLeasing           Capabilities = 0x02
	CapLargeMTU          Capabilities = 0x04
	CapMultiChannel      Capabilities = 0x08
	CapPersistentHandles Capabilities = 0x10
	CapDirectoryLeasing  Capabilities = 0x20
	CapEncryption        Capabilities = 0x40
	CapNotifications     Capabilities = 0x80
)

// NegotiateRequest offers dialects and, when 3.1.1 is among them, negotiate contexts (2.2.3).
type NegotiateRequest struct {
	Dialects     []Dialect
	SecurityMode SecurityMode
	Capabilities Capabilities
	ClientGUID   [16]byte
	// The fields below become negotiate contexts when Dialects has 3.1.1. Ciphers and
	// SigningAlgorithms are in order of preference; an empty list leaves its context out.
	Salt              []byte // of the preauthentication hash; at most 1024 bytes
	Ciphers           []Cipher
	SigningAlgorithms []SigningAlgorithm
	NetName           string // the server's name as the user wrote it; "" leaves it out
	POSIX             bool   // asks for the POSIX extensions
}

func (r *NegotiateRequest) offers311() bool {
	for _, d := range r.Dialects {
		if d == Dialect311 {
			return true
		}
	}
	return false
}

// Size is the number of bytes Append adds.
func (r *NegotiateRequest) Size() int {
	n := 36 + 2*len(r.Dialects)
	if r.offers311() {
		n = align8(n) + r.contextsSize()
	}
	return n
}

// Append appends the request's body behind its header.
func (r *NegotiateRequest) Append(dst []byte) []byte {
	base := len(dst)
	dst = le.AppendUint16(dst, 36)
	dst = le.AppendUint16(dst, uint16(len(r.Dialects)))
	dst = le.AppendUint16(dst, uint16(r.SecurityMode))
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint32(dst, uint32(r.Capabilities))
	dst = append(dst, r.ClientGUID[:]...)
	if r.offers311() {
		dst = le.AppendUint32(dst, uint32(HeaderSize+align8(36+2*len(r.Dialects))))
		dst = le.AppendUint16(dst, r.contextsCount())
		dst = le.AppendUint16(dst, 0)
	} else {
		dst = le.AppendUint64(dst, 0) // ClientStartTime
	}
	for _, d := range r.Dialects {
		dst = le.AppendUint16(dst, uint16(d))
	}
	if r.offers311() {
		dst = r.appendContexts(pad(dst, base), base)
	}
	return dst
}

// NegotiateResponse is the server's choice (2.2.4).
type NegotiateResponse struct {
	SecurityMode  SecurityMode
	Dialect       Dialect
	ServerGUID    [16]byte
	Capabilities  Capabilities
	MaxTransact   uint32 // bytes
	MaxRead       uint32 // bytes
	MaxWrite      uint32 // bytes
	SystemTime    Filetime
	SecurityToken []byte // SPNEGO's first token; may be empty; aliases the message
	// Contexts are the negotiate contexts of 3.1.1; zero below.
	Contexts NegotiateContexts
}

// DecodeNegotiateResponse reads a NEGOTIATE response.
func DecodeNegotiateResponse(msg []byte) (NegotiateResponse, error) {
	const name = "NEGOTIATE response"
	b, err := body(msg, name, 65, 64)
	if err != nil {
		return NegotiateResponse{}, err
	}
	r := NegotiateResponse{
		SecurityMode: SecurityMode(le.Uint16(b[2:])),
		Dialect:      Dialect(le.Uint16(b[4:])),
		ServerGUID:   [16]byte(b[8:24]),
		Capabilities: Capabilities(le.Uint32(b[24:])),
		MaxTransact:  le.Uint32(b[28:]),
		MaxRead:      le.Uint32(b[32:]),
		MaxWrite:     le.Uint32(b[36:]),
		SystemTime:   Filetime(le.Uint64(b[40:])),
	}
	var ok bool
	r.SecurityToken, ok = variable(msg, uint32(le.Uint16(b[56:])), uint32(le.Uint16(b[58:])), HeaderSize+64)
	if !ok {
		return NegotiateResponse{}, malformed(name, reasonBounds)
	}
	if r.Dialect == Dialect311 {
		if r.Contexts, err = decodeNegotiateContexts(msg, le.Uint32(b[60:]), le.Uint16(b[6:])); err != nil {
			return NegotiateResponse{}, err
		}
	}
	return r, nil
}
