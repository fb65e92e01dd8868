//go:build go1.27

package h2http_test

// by127 returns what net/http does since Go 1.27 rather than before.
func by127[T any](_, since T) T { return since }
