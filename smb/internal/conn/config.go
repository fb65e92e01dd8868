package conn

import (
	"context"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/spnego"
)

// Config is what a connection is made with. It must not change while connections use it; every
// field is required unless it says otherwise.
type Config struct {
	Pool *tarn.Pool
	// Host is the server's name, for the authentication and for NEGOTIATE.
	Host string
	// ClientGUID identifies the client to the server (MS-SMB2 2.2.3): leases and durable
	// handles belong to it.
	ClientGUID [16]byte
	// Authenticate begins one authentication with the server named host.
	Authenticate func(ctx context.Context, host string) (spnego.Mechanism, error)

	Dialects []proto.Dialect // offered, ascending
	Ciphers  []proto.Cipher  // in the order of preference
	Signers  []proto.SigningAlgorithm

	RequireSigning    bool
	RequireEncryption bool
	AllowGuest        bool // accept a session as guest although there are credentials

	MaxRead, MaxWrite, MaxTransact int // bytes of one request

	Credits      int           // to ask the server for
	LoginTimeout time.Duration // bounds authenticating again
	KeepAlive    time.Duration // silence after which an ECHO is sent; negative: never

	// Refused makes the error that the callers of a refused request get.
	Refused func(Refusal) error
	// Broken returns the tree on which the break of a lease or oplock is acknowledged; nil: on
	// none. It runs in the receiving goroutine and must not wait.
	Broken func(*Conn, *proto.Break) *Tree
}

// Terms are what was agreed with the server.
type Terms struct {
	Dialect      proto.Dialect
	Capabilities proto.Capabilities // the server's that count
	ServerGUID   [16]byte
	Cipher       proto.Cipher // zero: neither side can encrypt
	Signing      proto.SigningAlgorithm

	MaxRead, MaxWrite, MaxTransact int // bytes of one request

	SessionID  uint64
	SignAll    bool // every message is signed
	EncryptAll bool // every message is encrypted; a share may ask for it on its own
	Guest      bool
	Anonymous  bool
}
