//go:build race

package h2

// raceEnabled: under the race detector sync.Pool drops objects at random, so allocations
// are not counted.
const raceEnabled = true
