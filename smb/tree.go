package smb

import "github.com/tarn-go/tarn/smb/internal/conn"

// tree is a mount's share connected on one connection.
type tree struct {
	*conn.Tree
	m    *mount
	with *server
}
