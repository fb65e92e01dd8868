//go:build race

package sizing

// raceEnabled: the race detector makes everything some twenty times slower.
const raceEnabled = true
