package debug

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// leftOut are the tests that could not run for want of a browser.
var leftOut struct {
	sync.Mutex
	names []string
}

// TestMain says at the end what was left out, loudly, and lets CI fail for it.
func TestMain(m *testing.M) {
	status := m.Run()
	if n := len(leftOut.names); n > 0 {
		fmt.Fprintf(os.Stderr, "LEFT OUT: %d browser tests, because no chromium is installed: %v\n", n, leftOut.names)
		if os.Getenv("CI") == "true" && status == 0 {
			status = 1
		}
	}
	os.Exit(status)
}

// leaveOut skips a test for want of a browser, and has it counted.
func leaveOut(t *testing.T) {
	t.Helper()
	leftOut.Lock()
	leftOut.names = append(leftOut.names, t.Name())
	leftOut.Unlock()
	t.Skip("left out: no chromium")
}
