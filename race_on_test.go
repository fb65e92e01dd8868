//go:build race

package tarn_test

const raceEnabled = true
