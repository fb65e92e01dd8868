package smb_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// TestReplacedBetweenRequests has another client move a file away and give its name to a new one, before each request of a change in turn.
// The new file is as that client has made it, or as the whole change leaves it.
func TestReplacedBetweenRequests(t *testing.T) {
	const precious = "the content of another client, which is longer than what is written"
	is := func(content string, a proto.Attributes) func(*memoryNode) bool {
		return func(n *memoryNode) bool { return string(n.data) == content && n.all() == a && n.written == 0 }
	}
	then := time.Unix(1e9, 0)
	isSmall := func(fi fs.FileInfo) error {
		if fi.Size() != 5000 {
			return errors.New("another file")
		}
		return nil
	}
	for _, c := range []struct {
		name   string
		before func(old *memoryNode)
		change func(s *smb.Share) error
		after  func(n *memoryNode) bool // of the other client's file, besides being as it was made
		stays  bool                     // at its name
	}{
		{name: "Chmod", before: func(old *memoryNode) { old.attributes = proto.AttrHidden },
			change: func(s *smb.Share) error { return s.Chmod("small", 0o444) }, after: is(precious, proto.AttrReadOnly), stays: true},
		{name: "WriteFile", change: func(s *smb.Share) error { return s.WriteFile("small", []byte("short"), 0o666) },
			after: is("short", 0), stays: true},
		{name: "Rename", before: func(old *memoryNode) { old.sparse = true }, change: func(s *smb.Share) error { return s.Rename("small", "new") }},
		{name: "RemoveIf", change: func(s *smb.Share) error { return s.RemoveIf("small", isSmall) }, stays: true},
		{name: "RemoveIf of a read-only file", before: func(old *memoryNode) { old.attributes = proto.AttrReadOnly },
			change: func(s *smb.Share) error { return s.RemoveIf("small", isSmall) }, stays: true},
		{name: "RenameIf", change: func(s *smb.Share) error { return s.RenameIf("small", "big", isSmall) }, stays: true},
		{name: "RenameIf of a sparse file", before: func(old *memoryNode) { old.sparse = true },
			change: func(s *smb.Share) error { return s.RenameIf("small", "new", isSmall) }, stays: true},
		{name: "RenameNoReplaceIf", change: func(s *smb.Share) error { return s.RenameNoReplaceIf("small", "new", isSmall) }, stays: true},
		{name: "LchtimesIf", change: func(s *smb.Share) error { return s.LchtimesIf("small", time.Time{}, then, isSmall) }, stays: true},
		{name: "SymlinkTimes", change: func(s *smb.Share) error { return s.SymlinkTimes("target", "new", time.Time{}, then) }, stays: true},
		{name: "OpenAttributes", change: func(s *smb.Share) error {
			f, err := s.OpenAttributes("small")
			if err != nil {
				return err
			}
			defer f.Close()
			fi, err := f.Stat()
			if err == nil && fi.Size() == 5000 {
				err = errors.Join(f.SetAttributes(time.Time{}, uint32(proto.AttrSystem)), f.Chmod(0o444), f.Chtimes(time.Time{}, then))
			}
			return err
		}, stays: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, in := range []string{"small", "new"} {
				e := newFaultyShare(t, "plain", faultnet.TCP)
				s := e.share
				for n := 1; ; n++ {
					e.begin()
					if c.before != nil {
						e.disk.change("small", c.before)
					}
					var other *memoryNode
					e.disk.before(n, func() { other = e.disk.replace(in, []byte(precious)) })
					err := c.change(s)
					if other == nil {
						if n < 3 {
							t.Errorf("the change has %d requests", n-1)
						}
						break
					}
					e.disk.mu.Lock()
					where := fmt.Sprintf("%s replaced before request %d (%v)", in, n, err)
					if !is(precious, 0)(other) && (in == "new" || c.after == nil || !c.after(other)) {
						t.Errorf("%s: the other client's file has %q, attributes %x", where, other.data, other.all())
					}
					if named := in == "small" && c.stays || c.name == "RenameNoReplaceIf"; named && e.disk.nodes[in] != other {
						t.Errorf("%s: the other client's file has not its name", where)
					}
					e.disk.mu.Unlock()
				}
			}
		})
	}
}

// TestReadOnlyStays holds that a file that cannot be removed keeps its attributes.
func TestReadOnlyStays(t *testing.T) {
	const had = proto.AttrReadOnly | proto.AttrHidden | proto.AttrArchive
	for name, remove := range map[string]func(s *smb.Share) error{
		"Remove":    func(s *smb.Share) error { return s.Remove("small") },
		"RemoveIf":  func(s *smb.Share) error { return s.RemoveIf("small", func(fs.FileInfo) error { return nil }) },
		"RemoveAll": func(s *smb.Share) error { return s.RemoveAll("small") },
		"File.Remove": func(s *smb.Share) error {
			f, err := s.Open("small")
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Remove()
		},
	} {
		for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM", "plain/one credit"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				e := newFaultyShare(t, kind, faultnet.TCP)
				e.disk.change("small", func(n *memoryNode) { n.attributes, n.pinned = had, true })
				if err := remove(e.share); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("removed: %v", err)
				}
				e.disk.change("small", func(n *memoryNode) {
					if n.pinned = false; n.attributes != had {
						t.Errorf("attributes %x, want %x", n.attributes, had)
					}
				})
				if n := e.disk.openHandles(); name != "File.Remove" && n != 0 {
					t.Errorf("%d files are open", n)
				}
				err := remove(e.share)
				if _, there := e.disk.content("small"); err != nil || there {
					t.Errorf("not removed: %v", err)
				}
			})
		}
	}
}
