//go:build !race

package tarn_test

const raceEnabled = false
