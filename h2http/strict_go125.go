//go:build !go1.26

package h2http

import "net/http"

// strictStreams reports false: the setting came with Go 1.26.
func strictStreams(*http.HTTP2Config) bool { return false }
