package smb2_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
	"github.com/tarn-go/tarn/tarntest"
)

// TestPOSIX has modes with the POSIX extensions, which Dialer.SMB asks for.
func TestPOSIX(t *testing.T) {
	srv := rigtest.StartPOSIX(t, "../..", rig.Config{})
	d := smb2.Dialer{Initiator: &smb2.NTLMInitiator{User: srv.User, Password: srv.Password}, SMB: smb.Dialer{POSIX: true, Pool: tarntest.NewPool(t)}}
	session, err := d.Dial(t.Context(), srv.Addr)
	must(t, err)
	defer session.Logoff()
	share, err := session.Mount(srv.Share)
	must(t, err)
	f, err := share.OpenFile("file", os.O_RDWR|os.O_CREATE, 0o640)
	must(t, err)
	check := func(want os.FileMode) {
		t.Helper()
		if want != 0 { // Samba does not let a user look at a file without any permissions
			fi, err := share.Stat("file")
			must(t, err)
			if fi.Mode() != want {
				t.Errorf("mode %v, want %v", fi.Mode(), want)
			}
		}
		opened, err := f.Stat()
		must(t, err)
		list, err := share.ReadDir("")
		must(t, err)
		disk, err := os.Stat(filepath.Join(srv.Dir, "file"))
		must(t, err)
		for _, fi := range []os.FileInfo{opened, list[0], disk} {
			if fi.Mode() != want {
				t.Errorf("mode %v, want %v", fi.Mode(), want)
			}
		}
	}
	check(0o640)
	must(t, share.Chmod("file", 0))
	check(0)
	must(t, f.Chmod(0o604))
	check(0o604)
	must(t, f.Close())
}
