//go:build !race

package h1

// allocations are those permitted to a request: under the race detector sync.Pool drops objects at random.
const allocations = 0
