package backoff

import (
	"testing"
	"time"

	"google.golang.org/grpc/backoff"
)

func TestDelay(t *testing.T) {
	c := backoff.DefaultConfig
	if Delay(c, 0) != 0 {
		t.Error("waits before the first attempt")
	}
	for n := range 200 {
		d := Delay(c, n+1)
		if d < 0 || d > time.Duration(float64(c.MaxDelay)*(1+c.Jitter)) {
			t.Fatalf("after %d failures: %v", n+1, d)
		}
	}
	c.Jitter = 0
	for n, want := range map[int]time.Duration{1: time.Second, 2: 1600 * time.Millisecond, 1000: 120 * time.Second} {
		if d := Delay(c, n); d != want {
			t.Errorf("after %d failures: %v, want %v", n, d, want)
		}
	}
}
