package smb_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestRemoveAllStaysInTree removes trees with symbolic links that Samba follows itself, and shows as the directories that they lead
// to: nothing but the tree is removed, and the error names the link.
func TestRemoveAllStaysInTree(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		for _, x := range []struct{ link, target, remove, named string }{
			{"tree/d/link", "../../keep", "tree", "tree/d/link"},
			{"tree/d/link", "../..", "tree", "tree/d/link"},
			{"tree/d/link", "..", "tree", "tree/d/link"},
			{"tree/d/link", ".", "tree", "tree/d/link"},
			{"tree/link", "../keep", "tree", "tree/link"},
			{"tree/link", "../keep/in", "tree", "tree/link"},
			{"link", "keep/in", "link", "link"},
			{"link", "keep", "link", "link"},
			{"link", "../data/keep", "Link", "Link"},
			{"tree/link", "../keep", "tree/link", "tree/link"},
		} {
			must(t, share.MkdirAll("keep/in", 0o777))
			must(t, share.WriteFile("keep/important", []byte("x"), 0o666))
			must(t, share.WriteFile("keep/in/important", []byte("x"), 0o666))
			must(t, share.MkdirAll("tree/d", 0o777))
			must(t, share.WriteFile("tree/d/a", []byte("x"), 0o666))
			link := filepath.Join(srv.Dir, x.link)
			must(t, os.Symlink(x.target, link))
			err := share.RemoveAll(x.remove)
			if !errors.Is(err, smb.ErrLeavesTree) && !errors.Is(err, smb.ErrLoop) || !strings.Contains(err.Error(), x.named) {
				t.Errorf("%s -> %s: %v", x.link, x.target, err)
			}
			for _, name := range []string{"keep/important", "keep/in/important"} {
				if _, err := os.Stat(filepath.Join(srv.Dir, name)); err != nil {
					t.Errorf("%s -> %s: a file outside of the tree was removed: %v", x.link, x.target, err)
				}
			}
			if _, err := os.Stat(filepath.Join(srv.Dir, "tree/d/a")); (err == nil) != (x.remove != "tree") {
				t.Errorf("%s -> %s: of the tree itself: %v", x.link, x.target, err)
			}
			must(t, os.Remove(link))
			must(t, share.RemoveAll("tree"))
		}
		// A link to a directory without entries, or to a file, is removed, and so is a tree below a link that was named.
		must(t, share.MkdirAll("tree/d", 0o777))
		must(t, share.MkdirAll("keep/empty", 0o777))
		must(t, share.MkdirAll("keep/sub/d", 0o777))
		must(t, share.WriteFile("keep/sub/d/a", nil, 0o666))
		must(t, os.Symlink("../../keep/empty", filepath.Join(srv.Dir, "tree/d/empty")))
		must(t, os.Symlink("../../keep/important", filepath.Join(srv.Dir, "tree/d/file")))
		must(t, os.Symlink("keep", filepath.Join(srv.Dir, "to-keep")))
		must(t, share.RemoveAll("tree"))
		must(t, share.RemoveAll("to-keep/sub"))
		for name, there := range map[string]bool{"keep/empty": true, "keep/important": true, "tree": false, "keep/sub": false} {
			if _, err := os.Stat(filepath.Join(srv.Dir, name)); (err == nil) != there {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestRemoveAllStaysOnServer removes trees with DFS links to another server: nothing is removed there, unless the name of the tree leads
// through the link.
func TestRemoveAllStaysOnServer(t *testing.T) {
	two := rigtest.Start(t, rig.Config{})
	space := rigtest.Start(t, rig.Config{
		Global: []string{"host msdfs = yes"},
		Shares: []string{"[space]\n  path = %DIR%/space\n  msdfs root = yes\n  read only = no"},
	})
	tree, precious := filepath.Join(space.Dir, "space", "tree"), filepath.Join(two.Dir, "home", "precious", "file")
	must(t, os.MkdirAll(filepath.Join(tree, "d"), 0o777))
	must(t, os.WriteFile(filepath.Join(tree, "file"), nil, 0o666))
	must(t, os.Symlink(`msdfs:two\share\home`, filepath.Join(tree, "d", "link")))
	must(t, space.Own(tree))
	must(t, os.MkdirAll(filepath.Dir(precious), 0o777))
	must(t, os.WriteFile(precious, []byte("x"), 0o666))
	for _, name := range []string{"home", "home/precious", "home/precious/file"} {
		must(t, two.Own(filepath.Join(two.Dir, name)))
	}
	n := &names{servers: map[string]*rig.Server{"space": space, "two": two}, dialled: map[string]int{}}
	sess := dial(t, space, smb.Dialer{DialFunc: through(t, n.dial), Host: "space"})
	share, err := sess.Mount(t.Context(), "space")
	must(t, err)
	for _, name := range []string{"tree", "tree/d/link"} {
		err := share.RemoveAll(name)
		if !errors.Is(err, smb.ErrLeavesTree) || !strings.Contains(err.Error(), "tree/d/link") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(precious); err != nil {
			t.Errorf("%s: a file of another server was removed: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(tree, "file")); err == nil {
		t.Error("of the tree nothing was removed")
	}
	if n.dialled["two"] != 0 {
		t.Error("the other server was dialled")
	}
	must(t, share.RemoveAll("tree/d/link/precious"))
	if _, err := os.Stat(filepath.Dir(precious)); err == nil {
		t.Error("the tree that was named through the link is there")
	}
}

// TestRemoveAllComparesIDs has RemoveAll list directories whose ids, or those of their parents, are not what it has met before.
func TestRemoveAllComparesIDs(t *testing.T) {
	// The tree is d, in the root of the share; it has x, which has the file f.
	type ids struct{ root, above, d, x, entry, parent, beside uint64 }
	for _, c := range []struct {
		name string
		ids  ids
		want error
	}{
		{"as it should be", ids{root: 1, above: 1, d: 2, entry: 3, x: 3, parent: 2}, nil},
		{"no ids", ids{}, nil},
		{"ids that say that there are none", ids{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}, nil},
		{"the entry has another id", ids{root: 1, above: 1, d: 2, entry: 4, x: 3, parent: 2}, smb.ErrLeavesTree},
		{"another directory is above", ids{root: 1, above: 1, d: 2, entry: 3, x: 3, parent: 1}, smb.ErrLeavesTree},
		{"another directory is above the tree", ids{root: 1, above: 9, d: 2, entry: 3, x: 3, parent: 2}, smb.ErrLeavesTree},
		{"the tree beside itself", ids{root: 1, above: 1, d: 2, entry: 3, x: 3, parent: 2, beside: 2}, smb.ErrLeavesTree},
		{"a directory in itself", ids{root: 1, above: 1, d: 2, entry: 2, x: 2, parent: 2}, smb.ErrLoop},
	} {
		for _, opens := range []string{"reports ids when it opens", "reports ids in listings alone"} {
			t.Run(c.name+"/"+opens, func(t *testing.T) {
				s := &script.Server{}
				name, removed := "", map[string]bool{}
				s.Hook = func(sc *script.Conn, m *script.Message) bool {
					opened := map[string]uint64{"": c.ids.root, "d": c.ids.d, `d\x`: c.ids.x}
					switch m.Command {
					case proto.CommandCreate:
						name = script.NameOf(m)
						var contexts []byte
						if opens == "reports ids when it opens" && opened[name] != 0 {
							contexts = diskIDContext(opened[name])
						}
						sc.Opened(m, contexts, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
						return true
					case proto.CommandQueryDirectory:
						switch {
						case !script.Restarts(m):
							sc.Refuse(m, proto.StatusNoMoreFiles)
						case name == "":
							sc.List(m, script.Entry{Name: ".", ID: c.ids.root}, script.Entry{Name: "..", ID: c.ids.root},
								script.Entry{Name: "D", ID: c.ids.d}, script.Entry{Name: "beside", ID: c.ids.beside}, script.Entry{Name: "d2"})
						case name == "d":
							sc.List(m, script.Entry{Name: ".", ID: c.ids.d}, script.Entry{Name: "..", ID: c.ids.above},
								script.Entry{Name: "x", ID: c.ids.entry, Attributes: proto.AttrDirectory})
						default:
							sc.List(m, script.Entry{Name: ".", ID: c.ids.x}, script.Entry{Name: "..", ID: c.ids.parent}, script.Entry{Name: "f", ID: 5})
						}
						return true
					case proto.CommandSetInfo:
						if name == "d" && !removed[`d\x`] || name == `d\x` && !removed[`d\x\f`] {
							sc.Refuse(m, proto.StatusDirectoryNotEmpty)
							return true
						}
						removed[name] = true
					}
					return false
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				if err := f.Share().RemoveAll("d"); !errors.Is(err, c.want) || (err == nil) != removed["d"] || removed[`d\x\f`] != (c.want == nil) {
					t.Errorf("%v, removed: %v", err, removed)
				}
			})
		}
	}
}

// TestRemoveAllUnresolvable removes a tree with a symbolic link to itself. Samba with wide links does not list the link, and refuses to
// remove its directory as if that did not exist.
func TestRemoveAllUnresolvable(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{Mode: rig.Signed, Global: []string{"unix extensions = no", "wide links = yes"}})
	share := mount(t, srv, smb.Dialer{})
	must(t, share.MkdirAll("tree/d/e", 0o777))
	must(t, share.WriteFile("tree/d/a", nil, 0o666))
	must(t, os.Symlink("self", filepath.Join(srv.Dir, "tree/self")))
	if err := share.RemoveAll("tree"); err == nil {
		t.Error("RemoveAll returns nil, and the directory is there")
	}
	if _, err := os.Stat(filepath.Join(srv.Dir, "tree/d")); err == nil {
		t.Error("the other directory in it was not removed")
	}
	must(t, os.Remove(filepath.Join(srv.Dir, "tree/self")))
	must(t, share.RemoveAll("tree"))
}
