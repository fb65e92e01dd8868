package proto

// Cipher is an encryption algorithm (2.2.3.1.2). Zero is "none".
type Cipher uint16

// Ciphers (2.2.3.1.2).
const (
	CipherNone      Cipher = 0
	CipherAES128CCM Cipher = 1
	CipherAES128GCM Cipher = 2
	CipherAES256CCM Cipher = 3
	CipherAES256GCM Cipher = 4
)

// String is the cipher's usual name.
func (c Cipher) String() string {
	names := [...]string{"none", "AES-128-CCM", "AES-128-GCM", "AES-256-CCM", "AES-256-GCM"}
	if int(c) < len(names) {
		return names[c]
	}
	return "cipher " + hex(uint32(c))
}

// SigningAlgorithm is how messages are signed (2.2.3.1.7).
type SigningAlgorithm uint16

// Signing algorithms (2.2.3.1.7).
const (
	SigningHMACSHA256 SigningAlgorithm = 0 // the only one of 2.x
	SigningAESCMAC    SigningAlgorithm = 1 // the default of 3.x when none was negotiated
	SigningAESGMAC    SigningAlgorithm = 2
)

// String is the algorithm's usual name.
func (a SigningAlgorithm) String() string {
	names := [...]string{"HMAC-SHA256", "AES-CMAC", "AES-GMAC"}
	if int(a) < len(names) {
		return names[a]
	}
	return "signing algorithm " + hex(uint32(a))
}

// HashSHA512 is the only preauthentication hash (2.2.3.1.1).
const HashSHA512 uint16 = 1

// Types of negotiate contexts (2.2.3.1).
const (
	contextPreauth    = 1
	contextEncryption = 2
	contextNetName    = 5
	contextSigning    = 8
)

// NegotiateContexts are the contexts of a 3.1.1 server's answer (2.2.4.1). Contexts of other kinds, such as
// compression, are ignored.
type NegotiateContexts struct {
	// HasPreauth reports whether the server sent its preauthentication context; without it 3.2.5.2 requires
	// that the connection be ended.
	HasPreauth bool
	// PreauthHash is its choice; only HashSHA512 is valid.
	PreauthHash uint16
	// Cipher is CipherNone when it chose none.
	Cipher Cipher
	// HasSigning reports whether Signing was answered; 3.x without it means AES-CMAC.
	HasSigning bool
	Signing    SigningAlgorithm
	// POSIX reports whether the server has the POSIX extensions.
	POSIX bool
}

func (r *NegotiateRequest) contextsCount() uint16 {
	n := uint16(1)
	if len(r.Ciphers) > 0 {
		n++
	}
	if len(r.SigningAlgorithms) > 0 {
		n++
	}
	if r.NetName != "" {
		n++
	}
	if r.POSIX {
		n++
	}
	return n
}

func (r *NegotiateRequest) contextsSize() int {
	n := 8 + 6 + len(r.Salt)
	if len(r.Ciphers) > 0 {
		n = align8(n) + 8 + 2 + 2*len(r.Ciphers)
	}
	if len(r.SigningAlgorithms) > 0 {
		n = align8(n) + 8 + 2 + 2*len(r.SigningAlgorithms)
	}
	if r.NetName != "" {
		n = align8(n) + 8 + UTF16Len(r.NetName)
	}
	if r.POSIX {
		n = align8(n) + 8 + len(posixTag)
	}
	return n
}

func (r *NegotiateRequest) appendContexts(dst []byte, base int) []byte {
	dst = appendContextHeader(dst, contextPreauth, 6+len(r.Salt))
	dst = le.AppendUint16(dst, 1)
	dst = le.AppendUint16(dst, uint16(len(r.Salt)))
	dst = le.AppendUint16(dst, HashSHA512)
	dst = append(dst, r.Salt...)
	if len(r.Ciphers) > 0 {
		dst = appendContextHeader(pad(dst, base), contextEncryption, 2+2*len(r.Ciphers))
		dst = le.AppendUint16(dst, uint16(len(r.Ciphers)))
		for _, c := range r.Ciphers {
			dst = le.AppendUint16(dst, uint16(c))
		}
	}
	if len(r.SigningAlgorithms) > 0 {
		dst = appendContextHeader(pad(dst, base), contextSigning, 2+2*len(r.SigningAlgorithms))
		dst = le.AppendUint16(dst, uint16(len(r.SigningAlgorithms)))
		for _, a := range r.SigningAlgorithms {
			dst = le.AppendUint16(dst, uint16(a))
		}
	}
	if r.NetName != "" {
		dst = appendContextHeader(pad(dst, base), contextNetName, UTF16Len(r.NetName))
		dst = AppendUTF16(dst, r.NetName)
	}
	if r.POSIX {
		dst = appendContextHeader(pad(dst, base), contextPOSIX, len(posixTag))
		dst = append(dst, posixTag...)
	}
	return dst
}

func appendContextHeader(dst []byte, kind uint16, n int) []byte {
	dst = le.AppendUint16(dst, kind)
	dst = le.AppendUint16(dst, uint16(n))
	return le.AppendUint32(dst, 0)
}

func decodeNegotiateContexts(msg []byte, off uint32, count uint16) (NegotiateContexts, error) {
	const name = "negotiate context"
	var c NegotiateContexts
	if count == 0 {
		return c, nil
	}
	if off < HeaderSize+64 || uint64(off) > uint64(len(msg)) {
		return c, malformed(name, reasonBounds)
	}
	rest := msg[off:]
	for i := range count {
		if len(rest) < 8 {
			return c, malformed(name, reasonShort)
		}
		kind, n := le.Uint16(rest), int(le.Uint16(rest[2:]))
		if 8+n > len(rest) {
			return c, malformed(name, reasonBounds)
		}
		if err := c.decode(kind, rest[8:8+n]); err != nil {
			return c, err
		}
		if i+1 < count {
			if align8(8+n) > len(rest) {
				return c, malformed(name, reasonBounds)
			}
			rest = rest[align8(8+n):]
		}
	}
	return c, nil
}

// decode decodes one context. A response holds exactly one algorithm of each kind (3.2.5.2), and each kind
// once.
func (c *NegotiateContexts) decode(kind uint16, b []byte) error {
	switch kind {
	case contextPreauth:
		if len(b) < 6 || le.Uint16(b) != 1 || 6+int(le.Uint16(b[2:])) > len(b) || c.HasPreauth {
			return malformed("preauthentication context", reasonBounds)
		}
		c.HasPreauth, c.PreauthHash = true, le.Uint16(b[4:])
	case contextEncryption:
		if len(b) < 4 || le.Uint16(b) != 1 || c.Cipher != CipherNone {
			return malformed("encryption context", reasonBounds)
		}
		c.Cipher = Cipher(le.Uint16(b[2:]))
	case contextSigning:
		if len(b) < 4 || le.Uint16(b) != 1 || c.HasSigning {
			return malformed("signing context", reasonBounds)
		}
		c.HasSigning, c.Signing = true, SigningAlgorithm(le.Uint16(b[2:]))
	case contextPOSIX:
		c.POSIX = string(b) == posixTag
	}
	return nil
}
