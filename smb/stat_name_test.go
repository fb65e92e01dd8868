package smb_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// checkStatNames holds that a file is described by the last component of the name that the program gives, as by package os: not by
// the name that a link led to, nor by an encoded one.
func checkStatNames(t *testing.T, share *smb.Share, name, want string, dir bool) {
	t.Helper()
	fi, err := share.Stat(name)
	must(t, err)
	if fi.Name() != want {
		t.Errorf("Stat(%q) is of %q, want %q", name, fi.Name(), want)
	}
	f, err := share.Open(name)
	must(t, err)
	fi, err = f.Stat()
	must(t, err)
	if fi.Name() != want || f.Name() != name {
		t.Errorf("Open(%q): Stat is of %q, the file is %q", name, fi.Name(), f.Name())
	}
	must(t, f.Close())
	if dir {
		return
	}
	if _, fi, err = share.ReadFileInfo(name); err != nil || fi.Name() != want {
		t.Errorf("ReadFileInfo(%q) is of %v, %v", name, fi, err)
	}
}

func TestStatNamesOfLinks(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		s.Size = 100
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			if m.Command == proto.CommandCreate && script.NameOf(m) == `dir\link` {
				c.Reply(m, proto.StatusStoppedOnSymlink, symlinkError(`..\real`, 1, 0), script.AsAsked)
				return true
			}
			return false
		}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		checkStatNames(t, f.Share(), "dir/link", "link", true)
		checkStatNames(t, f.Share(), `dir\link`, "link", true)
	})
}

func TestStatNamesOverDFS(t *testing.T) {
	eachMode(t, rig.Config{
		Global: []string{"host msdfs = yes"},
		Shares: []string{"[dfs]\n  path = %DIR%/root\n  msdfs root = yes\n  read only = no"},
	}, func(t *testing.T, srv *rig.Server) {
		must(t, os.Mkdir(filepath.Join(srv.Dir, "root"), 0o755))
		must(t, os.Symlink(`msdfs:127.0.0.1\share`, filepath.Join(srv.Dir, "root", "link")))
		must(t, os.WriteFile(filepath.Join(srv.Dir, "file"), []byte("x"), 0o644))
		share, err := dial(t, srv, smb.Dialer{}).Mount(t.Context(), "dfs")
		must(t, err)
		checkStatNames(t, share, "link", "link", true)
		checkStatNames(t, share, "link/file", "file", false)
		checkStatNames(t, share, "", ".", true)
		checkStatNames(t, share, "link/..", ".", true)
	})
}

func TestStatNamesMapped(t *testing.T) {
	eachMode(t, rig.Config{Share: []string{"vfs objects = streams_xattr"}}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{Names: smb.NamesSFM})
		must(t, share.Mkdir("di:r.", 0o777))
		must(t, share.WriteFile("di:r./what?", []byte("x"), 0o666))
		checkStatNames(t, share, "di:r.", "di:r.", true)
		checkStatNames(t, share, "di:r./what?", "what?", false)
		checkStatNames(t, share, "./di:r.//what?/", "what?", false)
		f, err := share.OpenStream("di:r./what?", "stream", os.O_RDWR|os.O_CREATE, 0o666)
		must(t, err)
		defer f.Close()
		if fi, err := f.Stat(); err != nil || fi.Name() != "what?:stream" || f.Name() != "di:r./what?:stream" {
			t.Errorf("of a stream: %q, %v, %v", f.Name(), fi, err)
		}
	})
}
