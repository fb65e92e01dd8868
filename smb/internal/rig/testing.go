package rig

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
)

// left counts the tests left out for want of a server.
var left atomic.Int64

// Start runs a server for a test, and stops it at the end. Without Samba the test is
// named and left out, or fails when CI=true.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	Need(t)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("server's log:\n%s", s.Log())
		}
		s.Stop()
	})
	return s
}

// Need leaves a test out, naming it, where there is no Samba; when CI=true it fails.
func Need(t testing.TB) {
	t.Helper()
	if Available() {
		return
	}
	left.Add(1)
	fmt.Printf("LEFT OUT (no smbd): %s\n", t.Name())
	if os.Getenv("CI") == "true" {
		t.Fatal(errMissing)
	}
	t.Skip(errMissing)
}

// Main runs a package's tests and sums up what was left out. A TestMain passes its
// result to os.Exit.
func Main(m *testing.M) int {
	code := m.Run()
	if n := left.Load(); n > 0 {
		fmt.Printf("LEFT OUT for want of smbd: %d tests\n", n)
	}
	return code
}
