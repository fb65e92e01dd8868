package ntlm

import (
	"crypto/md5"
	"crypto/rc4"
	"crypto/subtle"
)

// sealing makes the signatures of extended session security with a 128-bit key
// (MS-NLMP 3.4.4.2). Each direction signs one message, SPNEGO's list of mechanisms.
type sealing struct{ keyExchange bool }

type direction string

const (
	clientToServer direction = "session key to client-to-server "
	serverToClient direction = "session key to server-to-client "
)

// derive is SIGNKEY or SEALKEY (MS-NLMP 3.4.5.2, 3.4.5.3).
func derive(exported [16]byte, d direction, purpose string) []byte {
	h := md5.New()
	h.Write(exported[:])
	h.Write([]byte(string(d) + purpose + " key magic constant\x00"))
	return h.Sum(nil)
}

func (s sealing) sign(d direction, exported [16]byte, data []byte) []byte {
	seq := make([]byte, 4) // the first message
	sum := hmacMD5(derive(exported, d, "signing"), seq, data)[:8]
	if s.keyExchange {
		rc, err := rc4.NewCipher(derive(exported, d, "sealing"))
		if err != nil {
			panic(err) // a key of 16 bytes is valid
		}
		rc.XORKeyStream(sum, sum)
	}
	mic := append([]byte{1, 0, 0, 0}, sum...)
	return append(mic, seq...)
}

func (s sealing) verify(exported [16]byte, data, mic []byte) error {
	if subtle.ConstantTimeCompare(mic, s.sign(serverToClient, exported, data)) != 1 {
		return ErrMIC
	}
	return nil
}
