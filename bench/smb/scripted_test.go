package bench

import (
	"net"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// User and password that scripted servers accept.
const (
	scriptUser     = "bench"
	scriptPassword = "scripted"
)

// serveScript serves conn with a scripted server of the mode: one endless file, reads and writes of up to
// 1 MiB, the best signing that the client has, and AES-128-GCM.
func serveScript(conn net.Conn, mode rig.Mode) error {
	s := script.Server{
		Account: &script.Account{User: scriptUser, Password: scriptPassword},
		MaxIO:   1 << 20, Size: 1 << 40, Unfilled: true,
		Signing: proto.SigningAESGMAC, Cipher: proto.CipherAES128GCM,
		Signed: mode == rig.Signed, Sealed: mode == rig.Encrypted,
	}
	return s.Serve(conn)
}
