package smb

import (
	"context"
	"crypto/fips140"
	"errors"
	"fmt"

	"github.com/tarn-go/tarn/smb/internal/ntlm"
)

// NTLM logs in with NTLMv2 (MS-NLMP). The zero NTLM is the anonymous user. LM and NTLMv1 are never used. NTLM is made of MD4,
// MD5 and RC4: a program that enforces FIPS 140-3 (GODEBUG=fips140=only) gets an error that matches errors.ErrUnsupported.
type NTLM struct {
	User     string // "" is anonymous
	Password string
	Hash     []byte // the NT hash, 16 bytes, in place of the Password
	Domain   string // "" lets the server choose
	// Workstation is this client's name in the server's log; may be empty.
	Workstation string
	// Target is the service principal name that the server may check, "cifs/server"; "":
	// "cifs/" and the server's name.
	Target string
}

// Start implements [Initiator].
func (n NTLM) Start(_ context.Context, host string) (SecurityContext, error) {
	if fips140.Enforced() {
		return nil, fmt.Errorf("smb: NTLM needs MD4, MD5 and RC4, which FIPS 140-3 does not approve; use Kerberos: %w", errors.ErrUnsupported)
	}
	if n.Hash != nil && len(n.Hash) != 16 {
		return nil, errors.New("smb: NTLM.Hash is not 16 bytes long")
	}
	target := n.Target
	if target == "" {
		target = "cifs/" + host
	}
	return ntlm.New(ntlm.Config{
		User: n.User, Password: n.Password, Hash: n.Hash, Domain: n.Domain,
		Workstation: n.Workstation, Target: target,
	}), nil
}
