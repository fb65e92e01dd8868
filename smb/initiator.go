package smb

import (
	"context"

	"github.com/tarn-go/tarn/smb/internal/spnego"
)

// Initiator starts the authentications of a Dialer: one for each login, including reconnections. It is safe
// for concurrent use.
type Initiator interface {
	// Start begins one authentication with the server named host. An error that matches fs.ErrPermission means that the
	// credentials were refused (ErrLogin); SecurityContext.Step may return one, too.
	Start(ctx context.Context, host string) (SecurityContext, error)
}

// SecurityContext is one running authentication with one mechanism (RFC 2743), such as NTLM or Kerberos. An Initiator of a program
// returns a value with the methods OID, Step, Done, SessionKey, MIC and VerifyMIC. It is used by one goroutine at a time. Package smb
// wraps its tokens in SPNEGO (RFC 4178).
type SecurityContext = spnego.Mechanism
