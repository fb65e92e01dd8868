package conn

import (
	"github.com/tarn-go/tarn/smb/internal/crypt"
)

// security holds the keys of an authenticated session. It never changes.
type security struct {
	sessionID  uint64
	signer     crypt.Signer // nil: the session has no key
	sealer     *crypt.Sealer
	opener     *crypt.Opener
	signAll    bool // every request is signed, and every reply must be
	encryptAll bool // likewise encrypted
}
