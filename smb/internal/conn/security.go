package conn

import (
	"github.com/tarn-go/tarn/smb/internal/crypt"
)

// Keyed reports whether the session has keys: it is neither a guest's nor the anonymous user's.
func (c *Conn) Keyed() bool { return c.sec.Load().signer != nil }

// security holds the keys of an authenticated session. It never changes.
type security struct {
	sessionID  uint64
	signer     crypt.Signer // nil: the session has no key
	sealer     *crypt.Sealer
	opener     *crypt.Opener
	signAll    bool // every request is signed, and every reply must be
	encryptAll bool // likewise encrypted
}
