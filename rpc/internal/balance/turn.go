package balance

import (
	"runtime"
	"sync/atomic"
	"time"
)

// turnLength is how long the goroutine that runs a balancer goes on before others may run on its processor.
const turnLength = 100 * time.Microsecond

// turn has the goroutine that runs a balancer yield now and then. A resolver's state of 1,000 endpoints keeps a balancer busy for
// milliseconds. What is queued on its processor waits meanwhile, calls in progress too: another processor takes it over
// only when it has nothing else to run.
type turn struct {
	epoch time.Time
	began atomic.Int64 // nanoseconds after epoch; balancers may use several goroutines
}

func (t *turn) begin() {
	if t != nil {
		t.began.Store(int64(time.Since(t.epoch)))
	}
}

// yield is called where no lock is held that a call may need.
func (t *turn) yield() {
	if t == nil || int64(time.Since(t.epoch))-t.began.Load() < int64(turnLength) {
		return
	}
	runtime.Gosched()
	t.begin()
}
