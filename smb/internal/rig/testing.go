package rig

import (
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
)

// Start runs a server for a test, and stops it at the end. Without Samba the test is
// left out as [Need] does.
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

// Need leaves a test out where there is no Samba, and has it listed at the end of make test; with
// CI=true the test fails.
func Need(t testing.TB) {
	t.Helper()
	if !Available() {
		leftout.Skip(t, "smbd or pdbedit is not installed (Debian: samba, samba-common-bin)")
	}
}
