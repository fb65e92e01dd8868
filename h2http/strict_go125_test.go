//go:build !go1.26

package h2http_test

import "net/http"

// setStrict sets StrictMaxConcurrentRequests and reports whether this Go has it.
func setStrict(*http.HTTP2Config) bool { return false }
