//go:build race

package smb_test

const raceEnabled = true
