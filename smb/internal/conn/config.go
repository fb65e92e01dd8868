package conn

import (
	"context"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/spnego"
)

// Config holds the settings of a connection. It must not change while connections use it; every field is
// required unless stated otherwise.
type Config struct {
	Pool    *tarn.Pool
	Traffic *Traffic // of all connections that have it
	// Host is the server's name, for the authentication and for NEGOTIATE.
	Host string
	// ClientGUID identifies the client to the server (MS-SMB2 2.2.3): leases and durable
	// handles belong to it.
	ClientGUID [16]byte
	// Authenticate begins one authentication with the server named host.
	Authenticate func(ctx context.Context, host string) (spnego.Mechanism, error)

	Dialects []proto.Dialect // offered, in ascending order
	Ciphers  []proto.Cipher  // in order of preference
	Signers  []proto.SigningAlgorithm

	SignAll           bool // sign every message of a session that has a key
	RequireEncryption bool
	RequireKey        bool // refuse a session without a key: of a guest or of the anonymous user
	AllowGuest        bool // accept a guest session although there are credentials
	POSIX             bool // ask for the POSIX extensions

	MaxRead, MaxWrite, MaxTransact int // bytes of one request

	Credits      int           // to request from the server
	LoginTimeout time.Duration // bounds a new authentication
	KeepAlive    time.Duration // time without a frame after which an ECHO is sent; negative: never
	// RequestTimeout ends a connection of which a request is overdue; negative: never.
	RequestTimeout time.Duration

	// Refused makes the error that the caller of a refused request gets.
	Refused func(Refusal) error
	// Broken returns the tree on which to acknowledge the break of a lease or oplock; nil: it is not
	// acknowledged. It runs in the receiving goroutine and must not block.
	Broken func(*Conn, *proto.Break) *Tree
}

// Terms are the negotiated parameters.
type Terms struct {
	Dialect      proto.Dialect
	Capabilities proto.Capabilities // the server's, as far as this client uses them
	ServerGUID   [16]byte
	Cipher       proto.Cipher // zero: neither side can encrypt
	Signing      proto.SigningAlgorithm

	MaxRead, MaxWrite, MaxTransact int // bytes of one request

	SessionID  uint64
	SignAll    bool // every message is signed
	EncryptAll bool // every message is encrypted; a share may require it on its own
	Guest      bool
	Anonymous  bool
	POSIX      bool // both sides have the POSIX extensions
}
