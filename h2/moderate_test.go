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
