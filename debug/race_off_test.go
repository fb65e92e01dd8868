//go:build !race

package debug

const raceEnabled = false
