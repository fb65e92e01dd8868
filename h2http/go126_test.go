//go:build !go1.27

package h2http_test

// by127 returns what net/http does before Go 1.27 rather than since.
func by127[T any](before, _ T) T { return before }
