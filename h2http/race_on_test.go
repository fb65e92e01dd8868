//go:build race

package h2http_test

// raceEnabled: under the race detector sync.Pool drops objects at random, so allocations
// are not counted.
const raceEnabled = true
