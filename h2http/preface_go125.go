//go:build !go1.26

package h2http

import (
	"net/http"
	"time"
)

// prefaceLimit returns how long ConfigureServer lets a connection take for its first
// bytes; 0: net/http bounds it. Before Go 1.26 it does not on connections that may
// use unencrypted HTTP/2. It sets a deadline of its own for what follows.
func prefaceLimit(srv *http.Server) time.Duration {
	if srv.Protocols == nil || !srv.Protocols.UnencryptedHTTP2() {
		return 0
	}
	return headerTimeout(srv)
}
