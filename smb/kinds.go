package smb

import "github.com/tarn-go/tarn/smb/internal/proto"

// Dialect is a revision of the protocol (MS-SMB2 2.2.3).
type Dialect uint16

// The dialects that this package supports.
const (
	SMB202 Dialect = 0x0202
	SMB210 Dialect = 0x0210
	SMB300 Dialect = 0x0300
	SMB302 Dialect = 0x0302
	SMB311 Dialect = 0x0311
)

// String is the dialect as people write it, "3.1.1".
func (d Dialect) String() string { return proto.Dialect(d).String() }

// dialects are all of them, in ascending order.
func dialects() []Dialect { return []Dialect{SMB202, SMB210, SMB300, SMB302, SMB311} }

// Cipher is an encryption algorithm (MS-SMB2 2.2.3.1.2). Zero is none.
type Cipher uint16

// Ciphers. Dialects 3.0 and 3.0.2 have only AES128CCM.
const (
	AES128CCM Cipher = 1
	AES128GCM Cipher = 2
	AES256CCM Cipher = 3
	AES256GCM Cipher = 4
)

// String is the cipher's usual name.
func (c Cipher) String() string { return proto.Cipher(c).String() }

// Signer is a signing algorithm (MS-SMB2 2.2.3.1.7). 2.x has only HMACSHA256, 3.0 and 3.0.2 only CMAC; 3.1.1
// negotiates it with servers that support that.
type Signer uint16

// Signers. GMAC is about fifteen times as fast as CMAC.
const (
	HMACSHA256 Signer = 0
	CMAC       Signer = 1
	GMAC       Signer = 2
)

// String is the algorithm's usual name.
func (s Signer) String() string { return proto.SigningAlgorithm(s).String() }

// ShareType is the type of a share's resource (MS-SRVS 2.2.2.4).
type ShareType uint32

// Types of shares. ShareSpecial is a flag: an administrative share.
const (
	ShareDisk    ShareType = 0
	SharePrinter ShareType = 1
	ShareDevice  ShareType = 2
	ShareIPC     ShareType = 3
	ShareSpecial ShareType = 0x80000000
)

// ShareInfo is one share in a server's list.
type ShareInfo struct {
	Name    string
	Comment string
	Type    ShareType
}

// SessionInfo holds what the last login negotiated with the server.
type SessionInfo struct {
	Addr       string
	Dialect    Dialect
	ServerGUID [16]byte
	Signing    bool   // every message is signed
	Signer     Signer // valid when the session has a key
	Encrypted  bool   // every message is encrypted; a share may require it on its own
	Cipher     Cipher // zero: neither side can encrypt
	Guest      bool   // the server accepted the user as a guest: nothing is signed or encrypted
	Anonymous  bool
	POSIX      bool // both sides have the POSIX extensions
	// MaxRead, MaxWrite and MaxTransact bound one request, in bytes.
	MaxRead, MaxWrite, MaxTransact int
}
