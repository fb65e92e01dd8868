package tarntest

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/guard"
)

// recorder is a testing.TB that notes failures instead of failing.
type recorder struct {
	testing.TB
	cleanups []func()
	failures []string
}

func (r *recorder) Helper()          {}
func (r *recorder) FailNow()         { runtime.Goexit() }
func (r *recorder) Name() string     { return "recorded" }
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// end runs the cleanups, last registered first, as the testing package does.
func (r *recorder) end() string {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return strings.Join(r.failures, "\n")
}

//go:noinline
func leakHere(p *tarn.Pool) tarn.Buffer { return p.Get(100) }

//go:noinline
func writeHere(p []byte) {
	p[0] = 1
}

// writeLine is the line of writeHere that writes.
func writeLine() string {
	file, line := runtime.FuncForPC(reflect.ValueOf(writeHere).Pointer()).FileLine(reflect.ValueOf(writeHere).Pointer())
	return fmt.Sprintf("%s:%d", filepath.Base(file), line+1)
}

func TestCleanTestsPass(t *testing.T) {
	for name, newPool := range map[string]func(testing.TB) *tarn.Pool{"NewPool": NewPool, "NewGuardedPool": NewGuardedPool} {
		r := &recorder{TB: t}
		p := newPool(r)
		head, tail := p.Get(100).Split(10)
		r.Cleanup(tail.Free) // cleanups registered later come first
		head.Free()
		if failures := r.end(); failures != "" {
			t.Errorf("%s: %s", name, failures)
		}
	}
}

func TestLeaksFail(t *testing.T) {
	r := &recorder{TB: t}
	b := leakHere(NewPool(r))
	failures := r.end()
	if !strings.Contains(failures, "never freed") || !strings.Contains(failures, "leakHere") {
		t.Errorf("a leak gives %q", failures)
	}
	b.Free()
}

func TestMisuseFails(t *testing.T) {
	r := &recorder{TB: t}
	NewPool(r).Refuse(make([]byte, 10))
	if failures := r.end(); !strings.Contains(failures, "foreign memory refused") {
		t.Errorf("misuse gives %q", failures)
	}
}

// Misuse whose panic a server or a helper recovers fails the test all the same.
func TestRecoveredMisuseFails(t *testing.T) {
	r := &recorder{TB: t}
	p := NewPool(r)
	func() {
		defer func() { _ = recover() }()
		b := leakHere(p)
		b.Free()
		b.Free()
	}()
	if failures := r.end(); !strings.Contains(failures, "double free") || !strings.Contains(failures, "leakHere") {
		t.Errorf("a recovered double free gives %q", failures)
	}
}

// A test that panics does not report what it therefore did not free.
func TestPanicComesFirst(t *testing.T) {
	r := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		defer r.end() // as the testing package does
		b := leakHere(NewPool(r))
		if b.Len() > 0 {
			panic("the test's own")
		}
		b.Free()
	}()
	if len(r.failures) != 0 {
		t.Errorf("beside the panic: %q", r.failures)
	}
}

// A goroutine that is just returning is waited for.
func TestGrace(t *testing.T) {
	r := &recorder{TB: t}
	p := NewPool(r)
	b := p.Get(100)
	go func() {
		for range 1000 {
			runtime.Gosched()
		}
		b.Free()
	}()
	if failures := r.end(); failures != "" {
		t.Error(failures)
	}
}

// Five hundred leaks of one place are one failure.
func TestEqualLeaksAreOneFailure(t *testing.T) {
	r := &recorder{TB: t}
	p := NewPool(r)
	var held []tarn.Buffer
	for range 500 {
		held = append(held, leakHere(p))
	}
	if failures := r.end(); len(r.failures) != 1 || !strings.Contains(failures, "500 reference(s)") {
		t.Errorf("%d failures:\n%s", len(r.failures), failures)
	}
	for _, b := range held {
		b.Free()
	}
}

// So are five hundred that the garbage collector has found before the test ends.
func TestEqualReportsAreOneFailure(t *testing.T) {
	r := &recorder{TB: t}
	p := NewPool(r)
	for range 500 {
		leakHere(p) //tarn:allow leak the reports are what is tested
	}
	for p.Stats().Leaked < 500 {
		runtime.GC()
	}
	if failures := r.end(); len(r.failures) != 1 || !strings.Contains(failures, "500 times: tarn: leak: ") {
		t.Errorf("%d failures:\n%.2000s", len(r.failures), failures)
	}
}

func TestWritesAfterFreeFail(t *testing.T) {
	r := &recorder{TB: t}
	p := NewPool(r)
	for range 100 { // the race detector drops some slabs
		b := p.Get(100)
		kept := b.Bytes()
		b.Free()
		kept[0] = 1 //tarn:allow use the write after Free is what is tested
	}
	if failures := r.end(); !strings.Contains(failures, "write after free") {
		t.Errorf("a write after free gives %q", failures)
	}
}

// A fault in a test is a failure that names who had the memory.
func TestFaultsFail(t *testing.T) {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := NewGuardedPool(r)
		defer ExplainFault(r, p)
		b := leakHere(p)
		kept := b.Bytes()
		b.Free()
		writeHere(kept)
	}()
	<-done
	failures := r.end()
	used, _, _ := strings.Cut(failures, "acquired at:")
	if guard.Supported && (!strings.Contains(failures, "use after free") || !strings.Contains(failures, "leakHere") ||
		!strings.Contains(used, "used at:") || !strings.Contains(used, writeLine())) {
		t.Errorf("a fault gives %q", failures)
	}
}
