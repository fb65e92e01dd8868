package monotonic

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Stamp
		if now := Now(); now <= 0 {
			t.Errorf("it is %d", now)
		}
		for _, d := range []time.Duration{0, time.Second, 0, 2 * time.Hour} {
			s.Set()
			<-time.After(d)
			if got := s.Since(); got != d {
				t.Errorf("%v after %v", got, d)
			}
		}
	})
}
