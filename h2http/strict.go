package h2http

import "net/http"

// strictStreams reports whether a client waits for the peer's limit on streams rather
// than open another connection.
func strictStreams(c *http.HTTP2Config) bool { return c.StrictMaxConcurrentRequests }
