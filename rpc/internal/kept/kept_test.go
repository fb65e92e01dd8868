package kept_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/kept"
)

// collect runs the garbage collector until done, and fails the test after many collections.
func collect(t *testing.T, done func() bool) {
	t.Helper()
	for range 100 {
		if done() {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	for begun := time.Now(); !done(); runtime.Gosched() { // the cleanups run on a goroutine of the runtime's
		if time.Since(begun) > 10*time.Second {
			t.Fatal("nothing was reported")
		}
		runtime.GC()
	}
}

// TestKept: of the fields of a sampled message those that are still referred to are reported, each name once.
func TestKept(t *testing.T) {
	got := make(chan kept.Field, 10)
	f := kept.NewFinder("/a.B/C", 2, func(k kept.Field) { got <- k })
	if f.Sample() != nil {
		t.Fatal("the first of two is a sample")
	}
	s := f.Sample()
	var held [][]byte
	for i := range 20 {
		b := s.Copy([]string{"a.M.kept", "a.M.other"}[i%2], []byte("content"))
		if string(b) != "content" {
			t.Fatalf("a copy is %q", b)
		}
		if i%2 == 0 {
			held = append(held, b)
		}
	}
	s.Released()
	collect(t, func() bool { return len(got) > 0 })
	if want := (kept.Field{Method: "/a.B/C", Name: "a.M.kept", Bytes: 7}); <-got != want || len(got) > 0 {
		t.Errorf("not just %v was reported", want)
	}
	runtime.KeepAlive(held)
}

// TestNotKept: what nothing refers to is not reported, nor is what a goroutine uses for a while after the release.
func TestNotKept(t *testing.T) {
	var got []kept.Field
	f := kept.NewFinder("/a.B/C", 1, func(k kept.Field) { got = append(got, k) })
	s := f.Sample()
	held := s.Copy("a.M.short", []byte("content"))
	s.Copy("a.M.empty", nil)
	s.Released()
	runtime.GC() // once
	if !slices.Equal(held, []byte("content")) {
		t.Error("a field has changed while it was referred to")
	}
	held = nil
	later := kept.NewFinder("/a.B/C", 1, func(kept.Field) {}).Sample() // its report comes after those of s
	keep := later.Copy("a.M.kept", []byte("content"))
	done := make(chan struct{})
	last := kept.NewFinder("/a.B/D", 1, func(kept.Field) { close(done) }).Sample()
	keep2 := last.Copy("a.M.kept", []byte("content"))
	later.Released()
	last.Released()
	collect(t, func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if len(got) > 0 {
		t.Errorf("reported: %v", got)
	}
	runtime.KeepAlive(keep)
	runtime.KeepAlive(keep2)
}
