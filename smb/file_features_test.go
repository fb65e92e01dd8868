package smb_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	"github.com/tarn-go/tarn/smb/sddl"
)

// TestStreamsAndAttributes writes and reads alternate data streams and extended attributes.
func TestStreamsAndAttributes(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode, Share: []string{"vfs objects = streams_xattr", "ea support = yes"}})
			share := mount(t, srv, smb.Dialer{})
			must(t, share.WriteFile("f", []byte("the file"), 0o666))
			want := random(2000) // few file systems store more than 4 KiB of attributes
			f, err := share.OpenStream("f", "notes", os.O_RDWR|os.O_CREATE, 0o666)
			must(t, err)
			_, err = f.WriteAt(want, 0)
			must(t, err)
			must(t, f.Close())
			list, err := share.Streams("f")
			if err != nil || !slices.Equal(list, []smb.StreamInfo{{Name: "notes", Size: 2000}}) {
				t.Errorf("%v, %v", list, err)
			}
			f, err = share.OpenStream("f", "notes", os.O_RDONLY, 0)
			must(t, err)
			got, err := io.ReadAll(f)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			must(t, f.Close())
			if b := onDisk(t, srv, "f"); string(b) != "the file" {
				t.Errorf("%q", b)
			}
			must(t, share.RemoveStream("f", "notes"))
			if _, err := share.OpenStream("f", "notes", os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			for _, bad := range []string{"", "a:b", "a/b", `a\b`, "a\x00"} {
				if _, err := share.OpenStream("f", bad, os.O_RDONLY, 0); !errors.Is(err, smb.ErrName) {
					t.Errorf("%q: %v", bad, err)
				}
			}

			if all, err := share.ExtendedAttributes("f"); err != nil || len(all) != 0 {
				t.Errorf("%v, %v", all, err)
			}
			must(t, share.SetExtendedAttribute("f", "colour", []byte("blue")))
			must(t, share.SetExtendedAttribute("f", "shape", []byte{0, 1, 2}))
			all, err := share.ExtendedAttributes("f")
			if err != nil || len(all) != 2 || string(all["COLOUR"])+string(all["colour"]) != "blue" {
				t.Errorf("%q, %v", all, err)
			}
			must(t, share.SetExtendedAttribute("f", "colour", nil))
			if all, err := share.ExtendedAttributes("f"); err != nil || len(all) != 1 {
				t.Errorf("%q, %v", all, err)
			}
		})
	}
}

// TestSnapshots reads files from snapshots.
func TestSnapshots(t *testing.T) {
	eachMode(t, rig.Config{Shares: []string{"[old]\n  path = %DIR%\n  read only = no\n  vfs objects = shadow_copy2\n" +
		"  shadow:mountpoint = %DIR%\n  shadow:snapdir = .snapshots\n  shadow:sort = desc\n  shadow:localtime = no"}}, testSnapshots)
}

func testSnapshots(t *testing.T, srv *rig.Server) {
	when := []time.Time{time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC), time.Date(2023, 1, 2, 3, 4, 5, 0, time.UTC)}
	for _, w := range when {
		dir := filepath.Join(srv.Dir, ".snapshots", w.Format("@GMT-2006.01.02-15.04.05"))
		must(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "d", "f"), []byte(w.String()), 0o444)) // without root the server's user owns it
	}
	must(t, os.Mkdir(filepath.Join(srv.Dir, "d"), 0o777))
	must(t, os.WriteFile(filepath.Join(srv.Dir, "d", "f"), []byte("now"), 0o666))
	share, err := mount(t, srv, smb.Dialer{}).Session().Mount(t.Context(), "old")
	must(t, err)
	list, err := share.Snapshots()
	if err != nil || len(list) != 2 || !list[0].Equal(when[0]) || !list[1].Equal(when[1]) {
		t.Fatalf("%v, %v", list, err)
	}
	for _, w := range when {
		past := share.At(w).WithContext(t.Context())
		if b, err := past.ReadFile("d/f"); err != nil || string(b) != w.String() {
			t.Errorf("%q, %v", b, err)
		}
		if list, err := past.ReadDir("d"); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
		f, err := past.Open("d/f")
		must(t, err)
		if b, err := io.ReadAll(f); err != nil || string(b) != w.String() {
			t.Errorf("%q, %v", b, err)
		}
		if b, err := f.Share().ReadFile("d/f"); err != nil || string(b) != w.String() {
			t.Errorf("%q, %v", b, err)
		}
		must(t, f.Close())
		if err := past.WriteFile("d/f", nil, 0o666); err == nil {
			t.Error("wrote to a snapshot")
		}
	}
	if b, err := share.At(when[0]).At(time.Time{}).ReadFile("d/f"); err != nil || string(b) != "now" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := share.At(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)).ReadFile("d/f"); err == nil {
		t.Error("read from a snapshot that does not exist")
	}
}

// TestSparse punches holes and lists the allocated ranges.
func TestSparse(t *testing.T) { eachMode(t, rig.Config{}, testSparse) }

func testSparse(t *testing.T, srv *rig.Server) {
	share := mount(t, srv, smb.Dialer{})
	f, err := share.Create("f")
	must(t, err)
	must(t, f.SetSparse())
	want := random(1 << 20)
	_, err = f.WriteAt(want, 4<<20)
	must(t, err)
	must(t, f.Truncate(16<<20))
	list, err := f.AllocatedRanges(0, 16<<20)
	if err != nil || len(list) != 1 || list[0] != (smb.Range{Offset: 4 << 20, Length: 1 << 20}) {
		t.Fatalf("%v, %v", list, err)
	}
	must(t, f.PunchHole(4<<20+256<<10, 512<<10))
	clear(want[256<<10 : 768<<10])
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 4<<20); err != nil || !bytes.Equal(got, want) {
		t.Error("read other content", err)
	}
	list, err = f.AllocatedRanges(0, 16<<20)
	if err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	list, err = f.AllocatedRanges(4<<20+100, 1000)
	if err != nil || len(list) != 1 || list[0] != (smb.Range{Offset: 4<<20 + 100, Length: 1000}) {
		t.Errorf("%v, %v", list, err)
	}
	for _, err := range []error{f.PunchHole(-1, 1), f.PunchHole(1, -1), f.PunchHole(1<<62, 1<<62)} {
		if err == nil {
			t.Error("no error")
		}
	}
	must(t, f.Close())
}

// TestRenameKeepsSparse renames a sparse file, to a new name and over another file: it stays marked as sparse. One that is not sparse
// does not become so.
func TestRenameKeepsSparse(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		data := []smb.Range{{Offset: 1 << 20, Length: 64 << 10}}
		want := sparseFile(t, share, "sparse", 4<<20, data)
		must(t, share.WriteFile("other", want[:1000], 0o666))
		must(t, share.Rename("other", "third"))
		must(t, share.Mkdir("d", 0o777))
		from := "sparse"
		for _, to := range []string{"new", "third", "d/THIRD"} {
			must(t, share.Rename(from, to))
			if ranges := rangesOf(t, share, to); !slices.Equal(ranges, data) {
				t.Errorf("renamed to %s: ranges %v", to, ranges)
			}
			if !bytes.Equal(onDisk(t, srv, to), want) {
				t.Errorf("renamed to %s: other content", to)
			}
			from = to
		}
		must(t, share.WriteFile("full", want[:1000], 0o666))
		must(t, share.Rename("full", "full2"))
		fi, err := share.Stat("full2")
		must(t, err)
		if proto.Attributes(fi.Sys().(*smb.FileStat).FileAttributes)&proto.AttrSparse != 0 {
			t.Error("a file that was not sparse has become so")
		}
	})
}

// TestManyRanges receives more ranges than one reply has, lists that do not continue, and ranges out of order.
func TestManyRanges(t *testing.T) {
	const many, distance = 10_000, 2000
	for _, c := range []struct {
		name  string
		room  int // ranges in one reply; negative: a longer list is refused
		first func(asked int) int
		back  uint64 // by how much each range begins before the end of the last
		fails error
	}{
		{"full replies", 4096, func(asked int) int { return asked }, 0, nil},
		{"short replies", 7, func(asked int) int { return asked }, 0, nil},
		{"always the first", 4096, func(int) int { return 0 }, 0, smb.ErrProtocol},
		{"nothing", 0, func(asked int) int { return asked }, 0, smb.ErrProtocol},
		{"overlapping", 4096, func(asked int) int { return asked }, 1950, smb.ErrProtocol},
		{"all or none", -4096, func(asked int) int { return asked }, 0, nil},
		{"none", -1, func(asked int) int { return asked }, 0, smb.Status(proto.StatusBufferTooSmall)},
	} {
		eachKind(t, func(t *testing.T, s *script.Server) {
			s.Hook = func(sc *script.Conn, m *script.Message) bool {
				if m.Command != proto.CommandIoctl || le.Uint32(m.Body[4:]) != proto.FsctlQueryAllocatedRanges {
					return false
				}
				var list []byte
				status := proto.StatusSuccess
				from, n := le.Uint64(m.Body[56:]), le.Uint64(m.Body[64:])
				first := c.first((int(from) + distance/2) / distance)
				last := min(many, (int(from+n)+distance-1)/distance)
				if c.room < 0 && last-first > -c.room {
					sc.Refuse(m, proto.StatusBufferTooSmall)
					return true
				}
				for i := first; i < last; i++ {
					if i-first == c.room {
						status = proto.StatusBufferOverflow
						break
					}
					list = le.AppendUint64(le.AppendUint64(list, uint64(i*distance)-c.back*uint64(i&1)), distance/2)
				}
				sc.Reply(m, status, ioctlAnswer(list), script.AsAsked)
				return true
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			list, err := f.AllocatedRanges(0, many*distance)
			if !errors.Is(err, c.fails) || c.fails == nil && len(list) != many {
				t.Errorf("%s: %d ranges, %v", c.name, len(list), err)
			}
		})
	}
}

// TestSecurityText reads a security descriptor as text and sets one.
func TestSecurityText(t *testing.T) {
	options := []string{"vfs objects = acl_xattr", "acl_xattr:ignore system acls = yes"}
	if os.Geteuid() != 0 { // security.NTACL, the default, is root's to write
		options = append(options, "acl_xattr:security_acl_name = user.NTACL")
	}
	eachMode(t, rig.Config{Share: options}, testSecurityText)
}

func testSecurityText(t *testing.T, srv *rig.Server) {
	share := mount(t, srv, smb.Dialer{})
	must(t, share.WriteFile("f", nil, 0o666))
	b, err := share.SecurityDescriptor("f", smb.OwnerSecurity|smb.DACLSecurity)
	must(t, err)
	d, err := sddl.Decode(b)
	must(t, err)
	if d.Owner == "" || d.DACL == nil {
		t.Fatalf("%s", d)
	}
	d.DACL.Entries = append(d.DACL.Entries, sddl.ACE{Type: sddl.Allow, Mask: 0x1200a9, SID: "S-1-5-32-545"})
	b, err = d.Encode()
	must(t, err)
	must(t, share.SetSecurityDescriptor("f", smb.DACLSecurity, b))
	b, err = share.SecurityDescriptor("f", smb.OwnerSecurity|smb.DACLSecurity)
	must(t, err)
	back, err := sddl.Decode(b)
	if err != nil || !slices.ContainsFunc(back.DACL.Entries, func(e sddl.ACE) bool { return e.SID == "S-1-5-32-545" && e.Mask == 0x1200a9 }) {
		t.Errorf("%s, %v", back, err)
	}
}

// TestMappedNames uses names that Windows forbids.
func TestMappedNames(t *testing.T) { eachMode(t, rig.Config{}, testMappedNames) }

func testMappedNames(t *testing.T, srv *rig.Server) {
	share := mount(t, srv, smb.Dialer{Names: smb.NamesSFM})
	names := []string{"a:b", "what?", "st*r", `"quoted"`, "<tag>", "pi|pe", "dot.", "space ", "tab\t", "...", "plain"}
	must(t, share.Mkdir("di:r.", 0o777))
	for _, name := range names {
		full := "di:r./" + name
		must(t, share.WriteFile(full, []byte(name), 0o666))
		if b, err := share.ReadFile(full); err != nil || string(b) != name {
			t.Errorf("%q: %q, %v", name, b, err)
		}
	}
	list, err := share.ReadDir("di:r.")
	must(t, err)
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("listed %q, want %q", got, names)
	}
	if _, err := os.Stat(filepath.Join(srv.Dir, "di\uf022r\uf029", "what\uf025")); err != nil {
		t.Error(err)
	}
	// A space or period that is encoded although it is not at the end: the entry is listed under a name that leads to it, not to the
	// other file.
	must(t, os.WriteFile(filepath.Join(srv.Dir, "di\uf022r\uf029", "in\uf028side"), []byte("encoded"), 0o666))
	must(t, share.WriteFile("di:r./in side", []byte("not encoded"), 0o666))
	list, err = share.ReadDir("di:r.")
	must(t, err)
	contents := map[string]bool{}
	for _, e := range list {
		b, err := share.ReadFile("di:r./" + e.Name())
		must(t, err)
		contents[string(b)] = true
	}
	if len(list) != len(names)+2 || len(contents) != len(list) || !contents["encoded"] || !contents["not encoded"] {
		t.Errorf("%d names lead to %d files", len(list), len(contents))
	}
	must(t, share.Rename("di:r./what?", "di:r./why?"))
	must(t, share.RemoveAll("di:r."))
	if _, err := share.Open("a/../../b"); !errors.Is(err, smb.ErrName) {
		t.Error(err)
	}
}

// TestMappedNamesStayInside lists names from which a mapping could make ones that lead outside their directory.
func TestMappedNamesStayInside(t *testing.T) { eachKind(t, testMappedNamesStayInside) }

func testMappedNamesStayInside(t *testing.T, s *script.Server) {
	done := false
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command != proto.CommandQueryDirectory {
			return false
		}
		if done {
			c.Refuse(m, proto.StatusNoMoreFiles)
		} else {
			c.List(m, script.Entry{Name: "\uf029\uf029"}, script.Entry{Name: "\uf029"}, script.Entry{Name: ".\uf029"}, script.Entry{Name: "x\uf026y"})
		}
		done = true
		return true
	}
	f, err := scripted(t, s, smb.Dialer{Names: smb.NamesSFM})
	must(t, err)
	entries, err := f.Share().ReadDir(".")
	must(t, err)
	for _, e := range entries {
		if e.Name() == "." || e.Name() == ".." || bytes.ContainsAny([]byte(e.Name()), `/\`) {
			t.Errorf("%q", e.Name())
		}
	}
}
