//go:build !race

package h2http_test

const raceEnabled = false
