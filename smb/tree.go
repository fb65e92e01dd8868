package smb

import (
	"sync/atomic"

	"github.com/tarn-go/tarn/smb/internal/conn"
)

// tree is a mount's share connected on one connection.
type tree struct {
	*conn.Tree
	m         *mount
	with      *server
	posix     bool                       // files are opened with the POSIX extensions
	undurable atomic.Int32               // files opened in a row for which the server refused a durable handle
	copies    atomic.Pointer[copyLimits] // as the server has stated them; nil: not yet
}

// replyLimit is how many bytes to allow for a reply of which up to n are wanted. Some servers permit less than 64 KiB.
func (t *tree) replyLimit(n uint32) uint32 { return min(n, uint32(t.Conn().Terms().MaxTransact)) }
