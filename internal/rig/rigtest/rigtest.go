// Package rigtest starts the Samba servers of package rig for tests, and stops them at the end. The
// rig itself does not import package testing, so that commands can use it.
package rigtest

import (
	"errors"
	"os"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/rig"
)

// Start runs a server for a test, and stops it at the end. Without Samba the test is
// left out as [Need] does.
func Start(t testing.TB, cfg rig.Config) *rig.Server {
	t.Helper()
	Need(t)
	s, err := rig.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, s)
	return s
}

// StartImpacket runs impacket's server for a test, and stops it at the end. Without impacket the test is
// left out as [Need] does.
func StartImpacket(t testing.TB) *rig.Server {
	t.Helper()
	s, err := rig.NewImpacket()
	if errors.Is(err, rig.ErrNoImpacket) {
		leftout.Skip(t, "impacket is not installed (Debian: python3-impacket)")
	}
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, s)
	return s
}

// stopAtEnd stops a server at the test's end, and logs what it has logged if the test has failed.
func stopAtEnd(t testing.TB, s *rig.Server) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("server's log:\n%s", s.Log())
		}
		s.Stop()
	})
}

// OpenFiles returns the files that the server holds open. Unless the test runs as root, as smbstatus demands, it is left out as [Need]
// does.
func OpenFiles(t testing.TB, s *rig.Server) []string {
	t.Helper()
	if os.Geteuid() != 0 {
		leftout.Skip(t, "smbstatus, which lists the open files, works as root only")
	}
	open, err := s.OpenFiles()
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// Need leaves a test out where there is no Samba, and has it listed at the end of make test; with
// CI=true the test fails.
func Need(t testing.TB) {
	t.Helper()
	if !rig.Available() {
		leftout.Skip(t, "smbd or pdbedit is not installed (Debian: samba, samba-common-bin)")
	}
}
