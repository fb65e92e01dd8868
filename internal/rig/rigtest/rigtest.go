// Package rigtest starts the Samba servers of package rig for tests, and stops them at the end. The
// rig itself does not import package testing, so that commands can use it.
package rigtest

import (
	"errors"
	"os"
	"path/filepath"
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

// StartPOSIX is Start for a server that has the SMB3 POSIX extensions, which Debian 12's has not: the newer one in bin/samba. root is the path
// from the test's folder to the repository's root.
func StartPOSIX(t testing.TB, root string, cfg rig.Config) *rig.Server {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "bin", "samba"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "usr", "sbin", "smbd")); err != nil {
		leftout.Skip(t, "Samba with POSIX extensions is not there (Debian's backports, by ci/deps.sh)")
	}
	cfg.Unpacked = dir
	cfg.Global = append(cfg.Global, "smb3 unix extensions = yes")
	return Start(t, cfg)
}

// Need leaves a test out where there is no Samba, and has it listed at the end of make test; with
// CI=true the test fails.
func Need(t testing.TB) {
	t.Helper()
	if !rig.Available() {
		leftout.Skip(t, "smbd or pdbedit is not installed (Debian: samba, samba-common-bin)")
	}
}
