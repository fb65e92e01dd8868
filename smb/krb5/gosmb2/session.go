package smb2

import (
	"context"
	"net"
	"os"

	"github.com/tarn-go/tarn/smb"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
)

// Dialer holds the settings for connecting to a server. Its fields are those of the other package's.
type Dialer struct {
	MaxCreditBalance uint16
	Negotiator       Negotiator
	Initiator        Initiator
	SMB              smb.Dialer
}

// Dial connects to the server at address, "host:port", and logs in.
func (d *Dialer) Dial(ctx context.Context, address string) (*Session, error) {
	s, err := (*smb2.Dialer)(d).Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// DialConn logs in on tcpConn, a connection to the server at address, and takes ownership of it.
func (d *Dialer) DialConn(ctx context.Context, tcpConn net.Conn, address string) (*Session, error) {
	s, err := (*smb2.Dialer)(d).DialConn(ctx, tcpConn, address)
	if err != nil {
		return nil, err
	}
	return &Session{s}, nil
}

// Session is the session of one user on one server.
type Session struct{ *smb2.Session }

// WithContext returns the same session under another context.
func (c *Session) WithContext(ctx context.Context) *Session {
	return &Session{c.Session.WithContext(ctx)}
}

// Mount connects to a share.
func (c *Session) Mount(sharename string, opts ...MountOption) (*Share, error) {
	s, err := c.Session.Mount(sharename, opts...)
	if err != nil {
		return nil, err
	}
	return &Share{s}, nil
}

// Share is a mounted share.
type Share struct{ *smb2.Share }

// WithContext returns the same share under another context.
func (s *Share) WithContext(ctx context.Context) *Share { return &Share{s.Share.WithContext(ctx)} }

// Create makes or empties the named file and opens it for reading and writing.
func (s *Share) Create(name string) (*File, error) { return opened(s.Share.Create(name)) }

// Open opens the named file or directory for reading.
func (s *Share) Open(name string) (*File, error) { return opened(s.Share.Open(name)) }

// OpenFile opens the named file with the flags of package os.
func (s *Share) OpenFile(name string, flag int, perm os.FileMode) (*File, error) {
	return opened(s.Share.OpenFile(name, flag, perm))
}

// File is an open file or directory.
type File struct{ *smb2.File }

func opened(f *smb2.File, err error) (*File, error) {
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// Close closes the file.
func (f *File) Close() error {
	if f == nil {
		return os.ErrInvalid
	}
	return f.File.Close()
}
