package smb

import "sync"

// leaseTable keeps what the server may break.
type leaseTable struct {
	mu sync.Mutex
}

func (l *leaseTable) broken(c *conn, msg []byte) {}
