//go:build unix

package smb

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"syscall"
	"unicode/utf16"

	"golang.org/x/crypto/md4" //lint:ignore SA1019 the NT hash is one
)

// chownLike sets a file's owner to that of another.
func chownLike(name string, owner os.FileInfo) error {
	st := owner.Sys().(*syscall.Stat_t)
	return os.Chown(name, int(st.Uid), int(st.Gid))
}

// ntHash is the NT hash of a password.
func ntHash(password string) string {
	h := md4.New()
	for _, unit := range utf16.Encode([]rune(password)) {
		h.Write(binary.LittleEndian.AppendUint16(nil, unit))
	}
	return hex.EncodeToString(h.Sum(nil))
}
