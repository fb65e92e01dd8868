// Package tarntest is for the tests of programs that use tarn: a pool that fails the test, with
// stacks, when anything is still out at its end or was misused.
package tarntest

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
)

// grace is how long the end of a test waits for buffers that are still out: a goroutine of the test may
// just be returning. A test that leaks takes this much longer.
const grace = time.Second

// NewPool returns a pool for one test, with every reference tracked (tarn.CheckAll). When the test
// and its cleanups registered later are over, the test fails for each place that made references that
// are still out after a second, and for each kind and place of misuse, with stacks: also where the panic was recovered, as servers do.
// A test that panics reports no buffers that are out, because the panic is why they are.
func NewPool(t testing.TB) *tarn.Pool {
	t.Helper()
	return newPool(t, tarn.CheckAll)
}

// NewGuardedPool is NewPool with tarn.CheckGuard: reading a slice kept beyond Free faults, too. Faults
// of the calling goroutine are panics until the test ends (debug.SetPanicOnFault); defer ExplainFault
// to see whose memory it was. Those of other goroutines end the program.
func NewGuardedPool(t testing.TB) *tarn.Pool {
	t.Helper()
	before := debug.SetPanicOnFault(true)
	t.Cleanup(func() { debug.SetPanicOnFault(before) })
	return newPool(t, tarn.CheckGuard)
}

// ExplainFault is to be deferred in a test, or on one of its goroutines that has called
// debug.SetPanicOnFault(true): it fails the test with the stacks of who acquired and who freed the
// memory that a fault hit. Other panics go on.
func ExplainFault(t testing.TB, p *tarn.Pool) {
	recovered := recover()
	if recovered == nil {
		return
	}
	m, ok := p.ExplainFault(recovered)
	if !ok {
		panic(recovered)
	}
	t.Helper()
	t.Errorf("tarntest: %v", m)
	t.FailNow()
}

func newPool(t testing.TB, level tarn.CheckLevel) *tarn.Pool {
	t.Helper()
	var found reports
	p, err := tarn.NewPool(tarn.PoolConfig{Name: t.Name(), Check: level, Report: found.add})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		t.Helper()
		if !panicking() {
			for _, h := range tarn.Holders(outstanding(p)) {
				t.Errorf("tarntest: never freed: %v", h)
			}
		}
		p.Trim() // looks for writes to freed memory
		for _, text := range found.take() {
			t.Errorf("tarntest: %s", text)
		}
	})
	return p
}

// panicking reports whether the calling goroutine runs deferred calls because of a panic.
func panicking() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function == "runtime.gopanic" {
			return true
		}
	}
	return false
}

// outstanding waits until no buffer is out, for grace at the most, and returns those that are out then.
func outstanding(p *tarn.Pool) []tarn.Outstanding {
	const steps = 100
	for range steps {
		if len(p.Outstanding()) == 0 {
			return nil
		}
		time.Sleep(grace / steps)
	}
	return p.Outstanding()
}

// reports collects what a pool reports.
type reports struct {
	mu   sync.Mutex
	list []tarn.Misuse
}

func (r *reports) add(m tarn.Misuse) {
	if m.Kind == tarn.Unguarded {
		return // the slab is checked without page protection, which is not a failure of the test
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, m)
}

// take returns the text of each report, the same once with its count, in the order of the first.
func (r *reports) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	counts := map[string]int{}
	for _, m := range r.list {
		text := m.Error()
		if counts[text] == 0 {
			texts = append(texts, text)
		}
		counts[text]++
	}
	r.list = nil
	for i, text := range texts {
		if n := counts[text]; n > 1 {
			texts[i] = fmt.Sprintf("%d times: %s", n, text)
		}
	}
	return texts
}
