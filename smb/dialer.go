package smb

import (
	"context"
	"crypto/fips140"
	"errors"
	"net"
	"time"

	"github.com/tarn-go/tarn"
)

// DefaultPort is the TCP port of SMB (MS-SMB2 2.1).
const DefaultPort = "445"

// Defaults of [Limits].
const (
	DefaultMaxIO          = 8 << 20
	DefaultMaxTransact    = 1 << 20
	DefaultPipeline       = 16 << 20
	DefaultCredits        = 8192
	DefaultDialTimeout    = 30 * time.Second
	DefaultKeepAlive      = time.Minute
	DefaultRequestTimeout = time.Minute
	DefaultRedialTimeout  = 5 * time.Second
	DefaultCloseTimeout   = 10 * time.Second
	DefaultReadAhead      = 64 << 20
	DefaultMaxEntries     = 4 << 20
	DefaultMaxListing     = 512 << 20
)

// Dialer holds the settings for connecting to a server. Its fields must not change while it is in use;
// otherwise it is safe for concurrent use. The zero Dialer lacks only an Initiator.
type Dialer struct {
	// Initiator authenticates the user. Required; NTLM{} is the anonymous user.
	Initiator Initiator
	// MinDialect and MaxDialect are the lowest and highest dialect offered; zero: SMB202 and SMB311.
	MinDialect, MaxDialect Dialect
	// AllowUnsigned sends messages of a session with credentials unsigned unless the server requires signatures. Without it
	// every message of such a session is signed or encrypted, also where the server does not require that. The server's last
	// message of the login must be signed in any case.
	AllowUnsigned bool
	// RequireSigning refuses a session that cannot be signed: that of a guest or of the anonymous user. It excludes AllowUnsigned.
	RequireSigning bool
	// RequireEncryption encrypts every message and refuses a session that cannot be encrypted.
	RequireEncryption bool
	// Names says how characters that Windows forbids in names are encoded. NamesAsTheyAre, the zero value,
	// refuses them with ErrName.
	Names NameMapping
	// AllowGuest accepts a session as guest, or as the anonymous user, although the Initiator has
	// credentials: the server did not check them, and nothing is signed or encrypted. Without it such
	// a session is refused with ErrGuest. It is refused in any case where RequireSigning or RequireEncryption is set, and in
	// place of a lost connection on which the server had checked the credentials.
	AllowGuest bool
	// EntryIDs has the entries of a listing report FileStat.FileID, which is zero otherwise. Samba
	// needs a third more time for such a listing.
	EntryIDs bool
	// POSIX asks for the SMB3 POSIX extensions, which Samba and ksmbd have, and dialect 3.1.1 alone. SessionInfo.POSIX says whether
	// the server has them. Then files have modes, owners and numbers of links (FileStat.POSIX), are created with the permissions that the
	// program gives, without a umask, and names are case-sensitive and may have characters that Windows forbids. There are no
	// streams. On a server without them nothing changes.
	POSIX bool
	// Ciphers and Signers are offered in this order of preference; nil: all of them,
	// the fastest first; in a program that enforces FIPS 140-3, no ciphers, and not GMAC. 3.1.1 only: see Cipher and Signer for the others.
	Ciphers []Cipher
	Signers []Signer
	// DialFunc makes the connection; nil: a net.Dialer with TCP's defaults.
	DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)
	// Pool gives the memory for every reply; nil: tarn.Shared().
	Pool *tarn.Pool
	// RequestTimeout bounds how long the server may answer neither a request nor one that was sent before it. When it has passed, at
	// most an eighth of it later, the connection is closed. Calls that waited for such a request fail with an error that matches
	// ErrConnLost and os.ErrDeadlineExceeded and are not repeated; to other calls the connection is lost. A request that the server
	// has acknowledged (STATUS_PENDING, MS-SMB2 3.2.5.1.5), as servers do with locks and changes to watch, may take any time. A message
	// of more than 64 KiB that is arriving counts as an answer to all. Zero: DefaultRequestTimeout, as in Windows; negative: none.
	RequestTimeout time.Duration
	// Limits bound sizes and times; zero fields take defaults.
	Limits Limits
	// Host is the server's name for the Initiator and in share paths; "": the host of
	// the address dialled.
	Host string
	// ClientGUID identifies this client to the server (MS-SMB2 2.2.3), which associates leases and durable
	// handles with it; zero: a random one for each Session, which changes when the server does not answer to it any more.
	ClientGUID [16]byte
	// AllowReferral reports whether a DFS referral may lead to host, where the client logs in as the same user; otherwise the
	// operation fails with ErrReferral, unless the referral has another target. nil: SameDomain with the host that was dialled
	// (or Host); a host of one label, such as a NetBIOS name, is taken as one in that domain.
	AllowReferral func(host string) bool
	// NoReconnect disables reconnection: after a lost connection every operation fails with ErrConnLost.
	NoReconnect bool
	// NoDurable opens files without asking for durable handles.
	NoDurable bool
}

// Limits bound the requests, the memory and the waiting times of a session.
type Limits struct {
	// MaxRead, MaxWrite and MaxTransact bound one request in bytes, below what the
	// server allows; zero: DefaultMaxIO, DefaultMaxIO and DefaultMaxTransact.
	MaxRead, MaxWrite, MaxTransact int
	// Pipeline bounds the bytes that one call keeps in flight; zero: DefaultPipeline.
	Pipeline int
	// ReadAhead bounds the bytes that all files of the session together have requested ahead of their
	// readers; zero: DefaultReadAhead; negative: nothing is read ahead. A file that is not read returns its
	// part after one to two seconds.
	ReadAhead int
	// MaxEntries bounds the entries of one directory: a longer listing fails with ErrTooMany. Zero:
	// DefaultMaxEntries.
	MaxEntries int
	// MaxListing bounds the bytes of entries that one ReadDir, WalkDir or RemoveAll holds, about 128 and its name's for each; more
	// fails with ErrTooMany. Entries and File.ReadDir(n) are for larger directories. Zero: DefaultMaxListing.
	MaxListing int
	// Credits is how many credits (64 KiB of transfer each) to ask the server for;
	// zero: DefaultCredits.
	Credits int
	// DialTimeout bounds connecting and logging in together. The error of an attempt that reaches it matches
	// ErrConnLost and os.ErrDeadlineExceeded. Zero: DefaultDialTimeout.
	DialTimeout time.Duration
	// RedialTimeout is how long one operation may be without a connection before the last attempt to replace it begins, which may itself
	// take DialTimeout. The pauses between attempts begin with 20 ms and double up to 1 s. After the last attempt the operation fails with
	// ErrConnLost. Zero: DefaultRedialTimeout; negative: one attempt.
	RedialTimeout time.Duration
	// CloseTimeout, or OperationTimeout if that is shorter, bounds the wait for the server in File.Close and Share.Unmount, and, also
	// if the context ends meanwhile, when ReplaceFile, WriteNewFile, Copy or Symlink fails and removes its file. Zero:
	// DefaultCloseTimeout.
	CloseTimeout time.Duration
	// OperationTimeout bounds every operation on files and shares, however many requests it takes, except waiting for a lock or a
	// change; zero: none. The error matches os.ErrDeadlineExceeded.
	OperationTimeout time.Duration
	// KeepAlive is how long no byte may arrive before an ECHO is sent; when none arrives for as long again, the connection is closed.
	// What is sent does not count: by default a WRITE of 1 MiB that takes longer than two minutes (9 KB/s) ends the connection; a
	// lower MaxWrite makes requests shorter. Zero: DefaultKeepAlive; negative: never.
	KeepAlive time.Duration
}

func positive(v, def int) int {
	if v <= 0 {
		return def
	}
	return v
}

// approved is d with defaults that a program which enforces FIPS 140-3 has: without what takes AES-GCM with nonces that the protocol prescribes.
func (d Dialer) approved() Dialer {
	if d.Ciphers == nil {
		d.Ciphers = []Cipher{}
	}
	if d.Signers == nil {
		d.Signers = []Signer{CMAC, HMACSHA256}
	}
	return d
}

// withDefaults is a copy of d with defaults in place of zero fields.
func (d Dialer) withDefaults() Dialer {
	if d.MinDialect == 0 {
		d.MinDialect = SMB202
	}
	if d.MaxDialect == 0 {
		d.MaxDialect = SMB311
	}
	if fips140.Enforced() {
		d = d.approved()
	}
	if d.Ciphers == nil {
		d.Ciphers = []Cipher{AES128GCM, AES256GCM, AES128CCM, AES256CCM}
	}
	if d.Signers == nil {
		d.Signers = []Signer{GMAC, CMAC, HMACSHA256}
	}
	if d.DialFunc == nil {
		d.DialFunc = new(net.Dialer).DialContext
	}
	if d.Pool == nil {
		d.Pool = tarn.Shared()
	}
	if d.RequestTimeout == 0 {
		d.RequestTimeout = DefaultRequestTimeout
	}
	l := &d.Limits
	l.MaxRead = positive(l.MaxRead, DefaultMaxIO)
	l.MaxWrite = positive(l.MaxWrite, DefaultMaxIO)
	l.MaxTransact = positive(l.MaxTransact, DefaultMaxTransact)
	l.Pipeline = positive(l.Pipeline, DefaultPipeline)
	l.MaxEntries = positive(l.MaxEntries, DefaultMaxEntries)
	l.MaxListing = positive(l.MaxListing, DefaultMaxListing)
	if l.ReadAhead == 0 {
		l.ReadAhead = DefaultReadAhead
	}
	if l.RedialTimeout == 0 {
		l.RedialTimeout = DefaultRedialTimeout
	}
	if l.CloseTimeout <= 0 {
		l.CloseTimeout = DefaultCloseTimeout
	}
	l.Credits = min(positive(l.Credits, DefaultCredits), 65535)
	if l.DialTimeout <= 0 {
		l.DialTimeout = DefaultDialTimeout
	}
	if l.KeepAlive == 0 {
		l.KeepAlive = DefaultKeepAlive
	}
	return d
}

func (d *Dialer) check() error {
	if d.Initiator == nil {
		return errors.New("smb: Dialer has no Initiator")
	}
	if d.MinDialect != 0 && d.MaxDialect != 0 && d.MinDialect > d.MaxDialect {
		return errors.New("smb: Dialer.MinDialect is above MaxDialect")
	}
	if d.RequireSigning && d.AllowUnsigned {
		return errors.New("smb: Dialer has RequireSigning and AllowUnsigned")
	}
	return nil
}

// Dial connects to the server at addr ("host" or "host:port", default port DefaultPort), negotiates a dialect
// and logs in. ctx bounds this work alone, not the session. A lost connection is dialled again when it is
// next needed, unless NoReconnect is set.
func (d *Dialer) Dial(ctx context.Context, addr string) (*Session, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(addr, DefaultPort)
	}
	return d.dialFirst(ctx, []string{addr})
}

// dialFirst dials addrs in order and uses the first that can be reached.
func (d *Dialer) dialFirst(ctx context.Context, addrs []string) (*Session, error) {
	s := newSession(d.withDefaults(), addrs...)
	if _, err := s.conn(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// NewSession logs in on nc, a connection that the caller made, and takes ownership of it: it is closed with
// the session, or when NewSession fails. It is not dialled again when it is lost.
func (d *Dialer) NewSession(ctx context.Context, nc net.Conn) (*Session, error) {
	if err := d.check(); err != nil {
		nc.Close()
		return nil, err
	}
	cfg := d.withDefaults()
	cfg.NoReconnect = true
	s := newSession(cfg, nc.RemoteAddr().String())
	if err := s.adopt(ctx, nc); err != nil {
		return nil, err
	}
	return s, nil
}
