//go:build !go1.27

package h2http

import "net/http"

// maxHeaderValues returns 0: http.Server has no such setting before Go 1.27.
func maxHeaderValues(*http.Server) int { return 0 }

// ignoresPriority returns false: http.Server has no such setting before Go 1.27.
func ignoresPriority(*http.Server) bool { return false }
