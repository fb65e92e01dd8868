package h2http

import (
	"net/http"
	"time"
)

// prefaceLimit returns 0: net/http bounds the time for a connection's first bytes.
func prefaceLimit(*http.Server) time.Duration { return 0 }
