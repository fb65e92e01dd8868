//go:build !race

package jsonpb

// dropped is how many allocations more a call may make on average: under the race detector sync.Pool drops objects at random.
const dropped = 0
