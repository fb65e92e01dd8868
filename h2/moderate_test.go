package h2

import (
	"testing"
	"time"
)

// TestModerated: reads are moderated that follow each other quickly and bring little.
func TestModerated(t *testing.T) {
	for _, x := range []struct {
		name   string
		since  time.Duration
		frames int
		want   bool
	}{
		{"one response, soon", quickRead / 2, 2, true},
		{"one response, after a while", quickRead, 2, false},
		{"many responses", quickRead / 2, goodRead, false},
	} {
		if got := moderated(x.since, x.frames); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

// TestReadDelay: the wait grows with the streams that share it, within bounds.
func TestReadDelay(t *testing.T) {
	for streams, want := range map[int]time.Duration{
		moderateFrom: 20 * time.Microsecond, 32: 20 * time.Microsecond, 64: 25600, 100: 40 * time.Microsecond, 128: 50 * time.Microsecond, 1000: 50 * time.Microsecond,
	} {
		if got := readDelay(streams); got != want {
			t.Errorf("%d streams: %v, not %v", streams, got, want)
		}
	}
}
