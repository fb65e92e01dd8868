package h2http_test

import "net/http"

// setStrict sets StrictMaxConcurrentRequests and reports whether this Go has it.
func setStrict(c *http.HTTP2Config) bool {
	c.StrictMaxConcurrentRequests = true
	return true
}
