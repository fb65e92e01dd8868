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
	undurable atomic.Int32               // files opened in a row for which the server refused a durable handle
	copies    atomic.Pointer[copyLimits] // as the server has stated them; nil: not yet
}
