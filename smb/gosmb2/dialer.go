package smb2

import (
	"context"
	"fmt"
	"net"

	"github.com/tarn-go/tarn/smb"
)

// Dialer holds the settings for connecting to a server.
type Dialer struct {
	// MaxCreditBalance is how many credits (64 KiB of transfer each) to ask the server for;
	// zero: smb.DefaultCredits.
	MaxCreditBalance uint16
	Negotiator       Negotiator
	// Initiator logs in. Required.
	Initiator Initiator
	// SMB holds the settings that go-smb2 has no field for: the pool, limits, ciphers, encryption. A field
	// above that is set takes precedence.
	SMB smb.Dialer
}

// Negotiator holds the settings that are negotiated with the server.
type Negotiator struct {
	RequireMessageSigning bool     // sign every message; otherwise only where the server requires it
	ClientGuid            [16]byte // zero: a random one
	SpecifiedDialect      uint16   // the only dialect offered, such as 0x0311; zero: 2.0.2 to 3.1.1
}

// settings converts d to package smb's Dialer.
func (d *Dialer) settings() (*smb.Dialer, error) {
	s := d.SMB
	s.EntryIDs = true // go-smb2's listings have them
	if d.Initiator != nil {
		s.Initiator = authenticator(d.Initiator)
	}
	if s.Initiator == nil {
		return nil, &InternalError{"Initiator is empty"}
	}
	if d.MaxCreditBalance != 0 {
		s.Limits.Credits = int(d.MaxCreditBalance)
	}
	n := &d.Negotiator
	s.RequireSigning = s.RequireSigning || n.RequireMessageSigning
	s.AllowUnsigned = !s.RequireSigning
	if n.ClientGuid != [16]byte{} {
		s.ClientGUID = n.ClientGuid
	}
	if n.SpecifiedDialect != 0 {
		s.MinDialect, s.MaxDialect = smb.Dialect(n.SpecifiedDialect), smb.Dialect(n.SpecifiedDialect)
	}
	return &s, nil
}

// Dial connects to the server at address, "host:port", and logs in. ctx bounds this work alone; it panics
// when ctx is nil. A lost connection is dialled again when it is next needed, unless SMB.NoReconnect is set.
func (d *Dialer) Dial(ctx context.Context, address string) (*Session, error) {
	if ctx == nil {
		panic("nil context")
	}
	s, err := d.settings()
	if err != nil {
		return nil, err
	}
	session, err := s.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("smb2: dialling %s: %w", address, translate(err))
	}
	return &Session{s: session, ctx: context.Background()}, nil
}

// DialConn logs in on tcpConn, a connection to the server at address. It takes ownership of
// tcpConn, which is closed when DialConn fails and with the session. ctx bounds the log-in
// alone; it panics when ctx is nil.
func (d *Dialer) DialConn(ctx context.Context, tcpConn net.Conn, address string) (*Session, error) {
	if ctx == nil {
		panic("nil context")
	}
	s, err := d.settings()
	if err != nil {
		tcpConn.Close()
		return nil, err
	}
	if s.Host == "" {
		s.Host = address
		if host, _, err := net.SplitHostPort(address); err == nil {
			s.Host = host
		}
	}
	session, err := s.NewSession(ctx, tcpConn)
	if err != nil {
		return nil, translate(err)
	}
	return &Session{s: session, ctx: context.Background()}, nil
}
