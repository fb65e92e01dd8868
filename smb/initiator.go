package smb

import "context"

// Initiator starts the authentications of a Dialer: one for each login, including reconnections. It is safe
// for concurrent use.
type Initiator interface {
	// Start begins one authentication with the server named host. An error that matches fs.ErrPermission means that the
	// credentials were refused (ErrLogin); SecurityContext.Step may return one, too.
	Start(ctx context.Context, host string) (SecurityContext, error)
}

// SecurityContext is one running authentication with one mechanism (RFC 2743). It is
// used by one goroutine at a time. Package smb wraps its tokens in SPNEGO (RFC 4178).
type SecurityContext interface {
	// OID is the mechanism's object identifier, dotted: "1.3.6.1.4.1.311.2.2.10" is NTLM.
	OID() string
	// Step takes the server's token, nil at first, and returns the next one to send, nil when there is none.
	// It borrows in; out belongs to the caller.
	Step(ctx context.Context, in []byte) (out []byte, err error)
	// Done reports whether this side needs nothing more.
	Done() bool
	// SessionKey is the session key, at least 16 bytes, valid after Done; nil for an anonymous user.
	SessionKey() []byte
	// MIC returns the mechanism's integrity code over data; nil, nil when it has none.
	MIC(data []byte) ([]byte, error)
	// VerifyMIC checks the server's code over data, in constant time.
	VerifyMIC(data, mic []byte) error
}
