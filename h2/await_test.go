package h2

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// eventually yields until ok reports true, and ends the test with what was expected and seen when that takes 30 seconds.
func eventually(t testing.TB, what string, ok func() bool, seen func() any) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s: not after 30 s; seen: %v", what, seen())
		}
	}
}

// stacks are those of all goroutines.
func stacks() any {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// awaitStreams waits until c has n streams.
func awaitStreams(t testing.TB, c *Conn, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d streams", n), func() bool { return c.Streams() == n }, func() any { return c.Streams() })
}

// awaitWindow waits until c may send n bytes.
func awaitWindow(t testing.TB, c *Conn, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("a window of %d bytes", n), func() bool { return c.window() >= n }, func() any { return c.window() })
}

// awaitStarted waits until c has a stream and every one is started.
func awaitStarted(t testing.TB, c *Conn) {
	t.Helper()
	count := func() (n, all int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for s := range c.streams.all() {
			if s.handler.Load() == started {
				n++
			}
		}
		return n, c.streams.len()
	}
	eventually(t, "started streams", func() bool { n, all := count(); return n > 0 && n == all }, func() any {
		n, all := count()
		return fmt.Sprintf("%d of %d", n, all)
	})
}
