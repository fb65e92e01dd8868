package smb_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestPathsInListing lists directories that contain a name with a path: it is left out, and each call that lists returns the other
// entries and an error. The connection remains.
func TestPathsInListing(t *testing.T) {
	for _, raw := range notEntryNames() {
		for _, kind := range kinds() {
			s := protections()[kind]
			begun := false
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch m.Command {
				case proto.CommandCreate:
					begun = false
					c.Opened(m, nil, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
					return true
				case proto.CommandQueryDirectory:
					if begun && !script.Restarts(m) {
						c.Refuse(m, proto.StatusNoMoreFiles)
						return true
					}
					begun = true
					c.List(m, script.Entry{Name: "one"}, script.Entry{Raw: raw}, script.Entry{Name: "another"})
					return true
				}
				return false
			}
			f, err := scripted(t, s, smb.Dialer{NoReconnect: true})
			must(t, err)
			entries := func() (list []fs.DirEntry, failed error) {
				for e, err := range f.Share().Entries("d") {
					if failed = err; err == nil {
						list = append(list, e)
					}
				}
				return list, failed
			}
			walk := func() (list []fs.DirEntry, failed error) {
				err := f.Share().WalkDir("d", func(name string, d fs.DirEntry, err error) error {
					if err != nil {
						failed = err
					} else if name != "d" {
						list = append(list, d)
					}
					return nil
				})
				must(t, err)
				return list, failed
			}
			for what, list := range map[string]func() ([]fs.DirEntry, error){
				"ReadDir": func() ([]fs.DirEntry, error) { return f.Share().ReadDir("d") },
				"File.ReadDir": func() ([]fs.DirEntry, error) {
					d, err := f.Share().Open("d")
					must(t, err)
					defer d.Close()
					return d.ReadDir(-1)
				},
				"Entries": entries,
				"WalkDir": walk,
			} {
				got, err := list()
				if !errors.Is(err, smb.ErrName) || errors.Is(err, smb.ErrProtocol) || len(got) != 2 {
					t.Errorf("%s: %s with the name %x: %v, %v", kind, what, raw, got, err)
				}
				for _, e := range got {
					if e.Name() != "one" && e.Name() != "another" {
						t.Errorf("%s: %s with the name %x: %q", kind, what, raw, e.Name())
					}
				}
			}
		}
	}
}

// TestBackslashOnDisk lists a directory with a file that has a backslash in its name, as Samba's disk may have.
func TestBackslashOnDisk(t *testing.T) {
	eachMode(t, rig.Config{Share: []string{"mangled names = no"}}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{NoReconnect: true})
		for _, name := range []string{`back\slash`, "one", "another"} {
			must(t, os.WriteFile(filepath.Join(srv.Dir, name), []byte(name), 0o666))
		}
		list, err := share.ReadDir(".")
		if len(list) != 2 || !errors.Is(err, smb.ErrName) {
			t.Errorf("%v, %v", list, err)
		}
		if b, err := share.ReadFile("one"); err != nil || string(b) != "one" {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// TestListingOfClosedSession closes a session while a directory is partly read and stays open: the memory of
// the reply is freed.
func TestListingOfClosedSession(t *testing.T) {
	s := &script.Server{Hook: func(c *script.Conn, m *script.Message) bool {
		switch m.Command {
		case proto.CommandCreate:
			c.Opened(m, nil, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
			return true
		case proto.CommandQueryDirectory:
			c.List(m, script.Entry{Name: "a"}, script.Entry{Name: "b"}, script.Entry{Name: "c"})
			return true
		}
		return false
	}}
	pool := newPool(t)
	f, err := scripted(t, s, smb.Dialer{Pool: pool})
	must(t, err)
	if list, err := f.ReadDir(1); len(list) != 1 || err != nil {
		t.Fatal(list, err)
	}
	must(t, f.Share().Session().Close())
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are in use", n)
	}
}

// diskIDContext is the context of a CREATE's reply that says the id of what was opened (MS-SMB2 2.2.14.2.9).
func diskIDContext(id uint64) []byte {
	b := make([]byte, 56)
	b[4], b[6], b[10], b[12] = 16, 4, 24, 32
	copy(b[16:], "QFid")
	le.PutUint64(b[24:], id)
	return b
}

// TestClassOfListing holds that reparse tags and file ids are asked for where they are needed, and nowhere else, and
// that no entry is lost or comes twice when that is noticed in the middle of a directory.
func TestClassOfListing(t *testing.T) {
	const short, long = proto.FileDirectoryInformation, proto.FileIDBothDirectoryInformation
	link := script.Entry{Name: "link", Attributes: proto.AttrReparsePoint, Tag: proto.ReparseTagSymlink, ID: 9}
	for _, c := range []struct {
		name    string
		dialer  smb.Dialer
		noID    bool // the server does not say a directory's id
		replies [][]script.Entry
		want    []proto.DirClass // of the requests that start a listing
	}{
		{"files", smb.Dialer{}, false, [][]script.Entry{{{Name: "a", ID: 7}}, {{Name: "b", ID: 8}}}, []proto.DirClass{short}},
		{"link first", smb.Dialer{}, false, [][]script.Entry{{link, {Name: "a"}}}, []proto.DirClass{short, long}},
		{"link later", smb.Dialer{}, false, [][]script.Entry{{{Name: "a"}, {Name: "b"}}, {{Name: "c"}, link, {Name: "d"}}}, []proto.DirClass{short, long}},
		{"EntryIDs", smb.Dialer{EntryIDs: true}, false, [][]script.Entry{{{Name: "a", ID: 7}, link}}, []proto.DirClass{long}},
		{"no ids", smb.Dialer{}, true, [][]script.Entry{{{Name: "a", ID: 7}, link}}, []proto.DirClass{long}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var started []proto.DirClass
			next := 0
			s := &script.Server{Hook: func(sc *script.Conn, m *script.Message) bool {
				switch m.Command {
				case proto.CommandCreate:
					var contexts []byte
					if !c.noID {
						contexts = diskIDContext(1)
					}
					sc.Opened(m, contexts, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
					return true
				case proto.CommandQueryDirectory:
					if script.Restarts(m) {
						started = append(started, script.ClassOf(m))
						next = 0
					}
					if next == len(c.replies) {
						sc.Refuse(m, proto.StatusNoMoreFiles)
						return true
					}
					sc.List(m, c.replies[next]...)
					next++
					return true
				}
				return false
			}}
			f, err := scripted(t, s, c.dialer)
			must(t, err)
			if c.noID { // which the first listing learns
				_, err := f.Share().ReadDir("d")
				must(t, err)
			}
			for what, list := range map[string]func() ([]fs.DirEntry, error){
				"ReadDir":      func() ([]fs.DirEntry, error) { return f.Share().ReadDir("d") },
				"File.ReadDir": func() ([]fs.DirEntry, error) { g, err := f.Share().Open("d"); must(t, err); return g.ReadDir(-1) },
			} {
				started, next = nil, 0
				got, err := list()
				must(t, err)
				if !slices.Equal(started, c.want) {
					t.Errorf("%s asked for classes %v, want %v", what, started, c.want)
				}
				var want []script.Entry
				for _, r := range c.replies {
					want = append(want, r...)
				}
				if len(got) != len(want) {
					t.Fatalf("%s: %d entries, want %d: %v", what, len(got), len(want), got)
				}
				for _, e := range want {
					i := slices.IndexFunc(got, func(d fs.DirEntry) bool { return d.Name() == e.Name })
					if i < 0 {
						t.Fatalf("%s: %q is missing", what, e.Name)
					}
					fi, _ := got[i].Info()
					st := fi.Sys().(*smb.FileStat)
					ids := c.want[len(c.want)-1] == long
					if st.ReparseTag != e.Tag || (got[i].Type() == fs.ModeSymlink) != (e.Tag != 0) || ids && st.FileID != e.ID || !ids && st.FileID != 0 {
						t.Errorf("%s: %q: %v, %+v", what, e.Name, got[i].Type(), st)
					}
				}
			}
		})
	}
}

// TestTagInLongListing has Samba list a directory of several replies with a DFS link in it, which is the reparse
// point that it reports.
func TestTagInLongListing(t *testing.T) {
	const files = 1500 // two replies of 64 KiB, three with ids and tags
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{
				Mode:   mode,
				Global: []string{"host msdfs = yes"},
				Shares: []string{"[dfs]\n  path = %DIR%/dfs\n  msdfs root = yes\n  read only = no"},
			})
			dir := filepath.Join(srv.Dir, "dfs", "d")
			must(t, os.MkdirAll(dir, 0o755))
			for i := range files {
				must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d", i)), nil, 0o644))
			}
			must(t, os.Symlink(`msdfs:127.0.0.1\share`, filepath.Join(dir, "link")))
			for _, ids := range []bool{false, true} {
				share, err := dial(t, srv, smb.Dialer{EntryIDs: ids, Limits: smb.Limits{MaxTransact: 64 << 10}}).Mount(t.Context(), "dfs")
				must(t, err)
				list, err := share.ReadDir("d")
				must(t, err)
				if len(list) != files+1 {
					t.Errorf("EntryIDs %v: %d entries", ids, len(list))
				}
				fi, err := list[len(list)-1].Info()
				must(t, err)
				if st := fi.Sys().(*smb.FileStat); st.FileName != "link" || st.ReparseTag != 0x8000000a {
					t.Errorf("EntryIDs %v: %+v", ids, st)
				}
			}
		})
	}
}

// TestLongMappedName lists a name of 40,000 characters that Dialer.Names maps: it is left out, and costs little.
func TestLongMappedName(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		begun := false
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			switch m.Command {
			case proto.CommandCreate:
				c.Opened(m, nil, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
				return true
			case proto.CommandQueryDirectory:
				if begun {
					c.Refuse(m, proto.StatusNoMoreFiles)
					return true
				}
				begun = true
				c.List(m, script.Entry{Name: strings.Repeat("\uf020", 40_000)})
				return true
			}
			return false
		}
		f, err := scripted(t, s, smb.Dialer{Names: smb.NamesSFM})
		must(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		names, err := f.Readdirnames(-1)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, smb.ErrName) || len(names) != 0 || len(err.Error()) > 1000 {
			t.Fatalf("%d names, %v", len(names), err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
			t.Errorf("%d bytes were allocated", n)
		}
	})
}

// TestListingRoundTrips counts the requests of a listing: the directory is opened and its first entries are requested in one frame, and it
// is closed in another.
func TestListingRoundTrips(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		for _, ids := range []bool{true, false} {
			var frames, queries atomic.Int32
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				if m.Flags&proto.FlagRelated == 0 {
					frames.Add(1)
				}
				switch m.Command {
				case proto.CommandCreate:
					var contexts []byte
					if ids {
						contexts = diskIDContext(7)
					}
					c.Opened(m, contexts, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
					return true
				case proto.CommandQueryDirectory:
					queries.Add(1)
					if script.Restarts(m) {
						c.List(m, script.Entry{Name: "one"}, script.Entry{Name: "two"})
					} else {
						c.Refuse(m, proto.StatusNoMoreFiles)
					}
					return true
				}
				return false
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			for i := range 3 {
				frames.Store(0)
				queries.Store(0)
				list, err := f.Share().ReadDir("d")
				if len(list) != 2 || err != nil {
					t.Errorf("%v, %v", list, err)
				}
				if !ids && i == 0 {
					continue // the client learns that the entries' ids are the only ones
				}
				if n, q := frames.Load(), queries.Load(); n != 2 || q != 2 {
					t.Errorf("ids %v: %d frames, %d QUERY_DIRECTORY", ids, n, q)
				}
			}
		}
	})
}

// TestListingWithoutNames: a server that lists nothing, or nothing but "." and "..", in turns, does not keep the client for ever.
func TestListingWithoutNames(t *testing.T) {
	for what, replies := range map[string][2][]script.Entry{"nothing": {}, "dots": {{{Name: "."}}, {{Name: ".."}}}} {
		t.Run(what, func(t *testing.T) {
			eachKind(t, func(t *testing.T, s *script.Server) {
				var queries atomic.Int32
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					switch m.Command {
					case proto.CommandCreate:
						c.Opened(m, diskIDContext(7), func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
						return true
					case proto.CommandQueryDirectory:
						if n := queries.Add(1); n < 1000 {
							c.List(m, replies[n%2]...)
						} else {
							c.Refuse(m, proto.StatusNoMoreFiles)
						}
						return true
					}
					return false
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				if list, err := f.Share().ReadDir("d"); !errors.Is(err, smb.ErrProtocol) {
					t.Errorf("%v, %v, after %d queries", list, err, queries.Load())
				}
			})
		})
	}
}
