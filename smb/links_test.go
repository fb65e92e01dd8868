package smb_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestDFS follows a DFS link to another share. (Samba's links have no port, so one machine cannot run a
// second server for them.)
func TestDFS(t *testing.T) {
	here := rigtest.Start(t, rig.Config{
		Global: []string{"host msdfs = yes"},
		Shares: []string{"[dfs]\n  path = %DIR%/root\n  msdfs root = yes\n  read only = no"},
	})
	must(t, os.Mkdir(filepath.Join(here.Dir, "root"), 0o777))
	must(t, os.Chmod(filepath.Join(here.Dir, "root"), 0o777))
	must(t, os.Symlink(`msdfs:127.0.0.1\share`, filepath.Join(here.Dir, "root", "local")))
	must(t, os.WriteFile(filepath.Join(here.Dir, "f"), []byte("here"), 0o666))
	sess := dial(t, here, smb.Dialer{})
	share, err := sess.Mount(t.Context(), "dfs")
	must(t, err)
	if b, err := share.ReadFile("local/f"); err != nil || string(b) != "here" {
		t.Fatalf("%q, %v", b, err)
	}
	must(t, share.WriteFile("local/new", []byte("by way of DFS"), 0o666))
	if got := onDisk(t, here, "new"); string(got) != "by way of DFS" {
		t.Errorf("%q", got)
	}
	list, err := share.ReadDir("local")
	if err != nil || len(list) < 2 {
		t.Error(list, err)
	}
	if _, err := share.Stat("local/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestRenameOverDFS moves files within, into and out of a DFS link.
func TestRenameOverDFS(t *testing.T) {
	eachMode(t, rig.Config{
		Global: []string{"host msdfs = yes"},
		Shares: []string{"[dfs]\n  path = %DIR%/root\n  msdfs root = yes\n  read only = no"},
	}, testRenameOverDFS)
}

func testRenameOverDFS(t *testing.T, here *rig.Server) {
	must(t, os.MkdirAll(filepath.Join(here.Dir, "root", "sub"), 0o777))
	must(t, os.Chmod(filepath.Join(here.Dir, "root"), 0o777))
	must(t, os.Chmod(filepath.Join(here.Dir, "root", "sub"), 0o777))
	must(t, os.Mkdir(filepath.Join(here.Dir, "local"), 0o777)) // a file with the link's name in the link's target, which must not be used
	must(t, os.Chmod(filepath.Join(here.Dir, "local"), 0o777))
	must(t, os.Symlink(`msdfs:127.0.0.1\share`, filepath.Join(here.Dir, "root", "local")))
	sess := dial(t, here, smb.Dialer{})
	share, err := sess.Mount(t.Context(), "dfs")
	must(t, err)
	must(t, share.WriteFile("local/a", []byte("a"), 0o666))
	must(t, share.Rename("local/a", "local/b"))
	if got := onDisk(t, here, "b"); string(got) != "a" {
		t.Errorf("%q", got)
	}
	for _, names := range [][2]string{{"local/b", "sub/b"}, {"local/b", "c"}} {
		if err := share.Rename(names[0], names[1]); !errors.Is(err, syscall.EXDEV) {
			t.Errorf("out of the link, %v: %v", names, err)
		}
	}
	must(t, share.WriteFile("sub/x", []byte("x"), 0o666))
	if err := share.Rename("sub/x", "local/x"); err == nil {
		t.Error("into the link: no error")
	}
	if got := onDisk(t, here, "root/sub/x"); string(got) != "x" {
		t.Errorf("%q", got)
	}
	if got := onDisk(t, here, "b"); string(got) != "a" {
		t.Errorf("%q", got)
	}
}

// TestRenameOverLinks follows links in both names.
func TestRenameOverLinks(t *testing.T) {
	eachKind(t, testRenameOverLinks)
}

func testRenameOverLinks(t *testing.T, s *script.Server) {
	var created, renamed []string
	refused := false
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		over := func(name string) bool {
			if rest, ok := strings.CutPrefix(name, "link"); ok {
				c.Reply(m, proto.StatusStoppedOnSymlink, symlinkError("real", 1, len(rest)), script.AsAsked)
				return true
			}
			return false
		}
		switch m.Command {
		case proto.CommandCreate:
			created = append(created, script.NameOf(m))
			refused = over(script.NameOf(m))
			return refused
		case proto.CommandSetInfo:
			if refused {
				c.Refuse(m, proto.StatusStoppedOnSymlink)
				return true
			}
			info := m.Body[32:]
			name := proto.DecodeUTF16(info[20:][:le.Uint32(info[16:])])
			if over(name) {
				return true
			}
			renamed = append(renamed, name)
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	for names, want := range map[[2]string]string{
		{"link/a", "link/b"}: `real\b`, {"link/a", "b"}: "b", {"a", "link/b"}: `real\b`, {"a", "d/b"}: `d\b`,
	} {
		created, renamed = nil, nil
		err := f.Share().Rename(names[0], names[1])
		if err != nil || len(renamed) != 1 || renamed[0] != want {
			t.Errorf("%v: opened %q, renamed to %q, %v", names, created, renamed, err)
		}
	}
}

// TestServerLinks uses links that the server follows.
func TestServerLinks(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{})
	share := mount(t, srv, smb.Dialer{})
	must(t, share.WriteFile("target", []byte("x"), 0o666))
	must(t, os.Symlink("target", filepath.Join(srv.Dir, "link")))
	if b, err := share.ReadFile("link"); err != nil || string(b) != "x" {
		t.Error(b, err)
	}
	if err := share.Symlink("target", "made"); err != nil { // Samba 4.17 cannot
		if !errors.Is(err, smb.ErrUnsupported) {
			t.Error(err)
		}
		if _, err := share.Stat("made"); !errors.Is(err, fs.ErrNotExist) {
			t.Error("left behind:", err)
		}
	}
}

func utf16le(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

// symlinkError is the body of an ERROR reply with a link's target (MS-SMB2 2.2.2.2.1).
func symlinkError(target string, flags uint32, behind int) []byte {
	name := utf16le(target)
	var d []byte
	d = le.AppendUint32(d, uint32(24+2*len(name)))
	d = le.AppendUint32(d, 0x4c4d5953)
	d = le.AppendUint32(d, 0xa000000c)
	d = le.AppendUint16(d, uint16(12+2*len(name)))
	d = le.AppendUint16(d, uint16(2*behind))
	d = le.AppendUint16(d, 0)
	d = le.AppendUint16(d, uint16(len(name)))
	d = le.AppendUint16(d, uint16(len(name)))
	d = le.AppendUint16(d, uint16(len(name)))
	d = le.AppendUint32(d, flags)
	d = append(append(d, name...), name...)
	c := le.AppendUint32(nil, uint32(len(d)))
	c = append(le.AppendUint32(c, 0), d...)
	b := append([]byte{9, 0, 1, 0}, le.AppendUint32(nil, uint32(len(c)))...)
	return append(b, c...)
}

// TestClientLinks uses links that the server leaves to the client.
func TestClientLinks(t *testing.T) {
	var asked []string
	s := &script.Server{}
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command != proto.CommandCreate {
			return false
		}
		at, n := le.Uint16(m.Body[44:])-64, le.Uint16(m.Body[46:])
		name := proto.DecodeUTF16(m.Body[at : at+n])
		asked = append(asked, name)
		link := func(target string, flags uint32, behind int) bool {
			c.Reply(m, proto.StatusStoppedOnSymlink, symlinkError(target, flags, behind), script.AsAsked)
			return true
		}
		switch name {
		case `dir\relative`:
			return link(`..\other\file`, 1, 0)
		case `dir\rest\of\it`:
			return link(`somewhere`, 1, len(`of\it`))
		case `absolute`:
			return link(`\??\UNC\scripted\share\far\away`, 0, 0)
		case `outside`:
			return link(`\??\C:\secret`, 0, 0)
		case `loop`:
			return link(`loop`, 1, 0)
		case `lie`:
			return link(`x`, 1, 5000)
		case `escape`:
			return link(`..\..\x`, 1, 0)
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	for name, want := range map[string]string{
		"dir/relative": `other\file`, "dir/rest/of/it": `dir\somewhere\of\it`, "absolute": `far\away`,
		"outside": "", "loop": "", "lie": "", "escape": "",
	} {
		asked = nil
		g, err := f.Share().Open(name)
		if want == "" {
			if err == nil || strings.Contains(err.Error(), "\n") || errors.Is(err, syscall.ELOOP) != (name == "loop") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || asked[len(asked)-1] != want {
			t.Errorf("%s: asked for %q, %v", name, asked, err)
			continue
		}
		must(t, g.Close())
	}
}

// TestSymlinkTargets makes symbolic links and reads their targets: the server stores the form that Windows does, a link to a directory
// is a directory, and a link that is made of what Readlink returns is equal.
func TestSymlinkTargets(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		var stored []byte // the reparse point
		var asDirectory bool
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			switch m.Command {
			case proto.CommandCreate:
				if script.NameOf(m) == "real" {
					c.Opened(m, nil, func(body []byte) { le.PutUint32(body[56:], uint32(proto.AttrDirectory)) })
					return true
				}
				if proto.Disposition(le.Uint32(m.Body[36:])) == proto.DispositionCreate {
					asDirectory = proto.CreateOptions(le.Uint32(m.Body[40:]))&proto.OptionDirectory != 0
				}
			case proto.CommandIoctl:
				var data []byte
				switch le.Uint32(m.Body[4:]) {
				case proto.FsctlSetReparsePoint:
					at := le.Uint32(m.Body[24:]) - proto.HeaderSize
					stored = append([]byte(nil), m.Body[at:at+le.Uint32(m.Body[28:])]...)
				case proto.FsctlGetReparsePoint:
					data = stored
				default:
					return false
				}
				b := make([]byte, 48, 48+len(data))
				b[0] = 49
				copy(b[4:24], m.Body[4:24])
				le.PutUint32(b[32:], proto.HeaderSize+48)
				le.PutUint32(b[36:], uint32(len(data)))
				c.Reply(m, 0, append(b, data...), script.AsAsked)
				return true
			}
			return false
		}
		f, err := scripted(t, s, smb.Dialer{Names: smb.NamesSFM})
		must(t, err)
		share := f.Share()
		for _, x := range []struct {
			target, stored string
			flags          uint32
			read           string
			directory      bool
		}{
			{"file", "file", 1, "file", false},
			{"../real", `..\real`, 1, "../real", true},
			{`..\up/what?`, "..\\up\\what\uf025", 1, "../up/what?", false},
			{"/real", `\??\UNC\scripted\share\real`, 0, "//scripted/share/real", true},
			{"//scripted/SHARE/real", `\??\UNC\scripted\SHARE\real`, 0, "//scripted/SHARE/real", true},
			{"//other/share/real", `\??\UNC\other\share\real`, 0, "//other/share/real", false},
			{"UNC/real", `UNC\real`, 1, "UNC/real", false},
		} {
			must(t, share.Symlink(x.target, "dir/link"))
			r, err := proto.DecodeReparse(stored)
			must(t, err)
			if got := proto.DecodeUTF16(r.Substitute); got != x.stored || r.Flags != x.flags || asDirectory != x.directory {
				t.Errorf("Symlink(%q) stores %q, flags %d, directory %t", x.target, got, r.Flags, asDirectory)
			}
			got, err := share.Readlink("dir/link")
			if err != nil || got != x.read {
				t.Errorf("Symlink(%q): Readlink is %q, %v, want %q", x.target, got, err, x.read)
			}
			before := stored
			if must(t, share.Symlink(got, "dir/link")); !bytes.Equal(stored, before) {
				t.Errorf("a link to %q is another one than that to %q", got, x.target)
			}
		}
	})
}
