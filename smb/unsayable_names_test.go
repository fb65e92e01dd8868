package smb_test

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// notEntryNames are names in UTF-16LE that name no entry of a directory, or that UTF-8 cannot express.
func notEntryNames() [][]byte {
	list := [][]byte{{}, {'a'}, {'a', 0, 'b'}}
	for _, name := range []string{"../x", `..\x`, "/etc/passwd", "a/b", `a\b`, "x\x00y", strings.Repeat("x", 256)} {
		list = append(list, proto.AppendUTF16(nil, name))
	}
	for _, units := range [][]uint16{{0xd800}, {'a', 0xd800}, {'a', 0xdc01}, {0xd800, 'a'}, {0xdc00, 0xd800}} {
		list = append(list, unitsLE(units))
	}
	return list
}

func unitsLE(units []uint16) (b []byte) {
	for _, u := range units {
		b = le.AppendUint16(b, u)
	}
	return b
}

// TestNamesWithLoneSurrogates lists files whose names differ in lone surrogates alone: none is listed under a name that is another
// file's, and the error names one of them.
func TestNamesWithLoneSurrogates(t *testing.T) {
	for _, kind := range kinds() {
		s := protections()[kind]
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			switch {
			case m.Command == proto.CommandCreate:
				c.Opened(m, diskIDContext(1), func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
				return true
			case m.Command == proto.CommandQueryDirectory && script.Restarts(m):
				c.List(m, script.Entry{Raw: unitsLE([]uint16{'a', 0xd800})}, script.Entry{Raw: unitsLE([]uint16{'a', 0xfffd})},
					script.Entry{Raw: unitsLE([]uint16{'a', 0xdc01})}, script.Entry{Raw: unitsLE([]uint16{'a', 0xd83d, 0xde00})},
					script.Entry{Name: "link", Attributes: proto.AttrReparsePoint, Tag: proto.ReparseTagSymlink})
				return true
			case m.Command == proto.CommandQueryDirectory:
				c.Refuse(m, proto.StatusNoMoreFiles)
				return true
			}
			return false
		}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		list, err := f.Share().ReadDir("d")
		var names []string
		for _, e := range list {
			names = append(names, e.Name())
		}
		if !slices.Equal(names, []string{"a\ufffd", "a\U0001f600", "link"}) || !errors.Is(err, smb.ErrName) || !strings.Contains(err.Error(), `"a\xed\xa0\x80" and 1 more`) {
			t.Errorf("%s: %q, %v", kind, names, err)
		}
	}
}

// TestUnsayableNamesSent gives methods names that UTF-16 cannot express, or that would be cut: no request is sent that names another file.
func TestUnsayableNamesSent(t *testing.T) {
	s := &script.Server{}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	share := f.Share()
	for _, name := range []string{"a\xff", "a\xed\xa0\x80", "a\x00b"} {
		for what, use := range map[string]func() error{
			"Open":         func() error { _, err := share.Open(name); return err },
			"Rename":       func() error { return share.Rename("x", name) },
			"Symlink to":   func() error { return share.Symlink(name, "x") },
			"Symlink":      func() error { return share.Symlink("x", name) },
			"OpenStream":   func() error { _, err := share.OpenStream("x", name, 0, 0); return err },
			"RemoveStream": func() error { return share.RemoveStream("x", name) },
			"Remove":       func() error { return share.Remove(name) },
			"RemoveAll":    func() error { return share.RemoveAll(name) },
			"Copy":         func() error { _, err := share.Copy(name, "x"); return err },
			"Watch":        func() error { _, err := share.Watch(name, smb.WatchAll); return err },
			"Mount":        func() error { _, err := share.Session().Mount(t.Context(), name); return err },
		} {
			if err := use(); !errors.Is(err, smb.ErrName) {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
	}
}

// TestWatchedNames reports changes whose names are paths out of the directory, or cannot be expressed: the others of the reply come
// first, then an error that matches ErrName, and the watch continues.
func TestWatchedNames(t *testing.T) {
	bad := append(notEntryNames(), proto.AppendUTF16(nil, `sub\..\..\x`), proto.AppendUTF16(nil, ".."), proto.AppendUTF16(nil, "."),
		proto.AppendUTF16(nil, `\x`), proto.AppendUTF16(nil, `sub\`))
	for _, raw := range bad {
		if string(raw) == string(proto.AppendUTF16(nil, `a\b`)) {
			continue // a file in a directory below
		}
		w := newWatched(t, "plain")
		next := func(names ...[]byte) ([]smb.Event, error) {
			done := make(chan struct{})
			var events []smb.Event
			var err error
			go func() {
				defer close(done)
				events, err = w.w.Next(t.Context())
			}()
			if names != nil {
				select {
				case n := <-w.asked:
					n.reportRaw(names...)
				case <-done:
					t.Errorf("%x: Next has sent no request: %v", raw, err)
				}
			}
			<-done
			return events, err
		}
		good := proto.AppendUTF16(nil, `sub\file`)
		events, err := next(raw, good)
		if err != nil || len(events) != 1 || events[0].Name != "sub/file" {
			t.Errorf("%x: %v, %v", raw, events, err)
		}
		if events, err = next(); len(events) != 0 || !errors.Is(err, smb.ErrName) {
			t.Errorf("%x: %v, %v", raw, events, err)
		}
		if events, err = next(raw); len(events) != 0 || !errors.Is(err, smb.ErrName) {
			t.Errorf("%x alone: %v, %v", raw, events, err)
		}
		if events, err = next(good); err != nil || len(events) != 1 {
			t.Errorf("%x: afterwards: %v, %v", raw, events, err)
		}
		w.w.Close()
	}
}

// reportRaw answers with added files of names in UTF-16LE.
func (n notify) reportRaw(names ...[]byte) {
	n.answered.Store(true)
	var b []byte
	for i, name := range names {
		at := len(b)
		b = append(b, make([]byte, 12)...)
		le.PutUint32(b[at+4:], uint32(smb.Added))
		le.PutUint32(b[at+8:], uint32(len(name)))
		if b = append(b, name...); i < len(names)-1 {
			for len(b)%4 != 0 {
				b = append(b, 0)
			}
			le.PutUint32(b[at:], uint32(len(b)-at))
		}
	}
	n.c.Reply(&n.m, 0, output(9, b), script.AsAsked)
}

// TestUnsayableLinks follows and reads links whose targets UTF-8 cannot express, by symbolic links and DFS referrals: each fails with
// ErrName, and no other name is opened.
func TestUnsayableLinks(t *testing.T) {
	s := &script.Server{}
	var opened []string
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		switch {
		case m.Command == proto.CommandCreate:
			opened = append(opened, script.NameOf(m))
			if script.NameOf(m) == `dfs\file` {
				c.Refuse(m, proto.StatusPathNotCovered)
				return true
			}
		case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
			b := referralAnswer(`\scripted\share\dfs`, `\scripted\share\target#`, time.Minute)
			le.PutUint16(b[len(b)-4:], 0xd800)
			c.Reply(m, 0, ioctlAnswer(b), script.AsAsked)
			return true
		case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlGetReparsePoint:
			b := proto.AppendSymlink(nil, "target#", proto.SymlinkRelative)
			le.PutUint16(b[len(b)-2:], 0xd800)
			le.PutUint16(b[len(b)-16:], 0xd800)
			c.Reply(m, 0, ioctlAnswer(b), script.AsAsked)
			return true
		case m.Command == proto.CommandQueryInfo && proto.InfoClass(m.Body[3]) == proto.ClassStream:
			var b []byte
			for _, name := range [][]uint16{{':', 'a', 0xd800, ':', '$', 'D', 'A', 'T', 'A'}, {':', 'b', ':', '$', 'D', 'A', 'T', 'A'}} {
				at := len(b)
				b = append(append(b, make([]byte, 24)...), unitsLE(name)...)
				le.PutUint32(b[at+4:], uint32(2*len(name)))
				if at == 0 {
					for len(b)%8 != 0 {
						b = append(b, 0)
					}
					le.PutUint32(b, uint32(len(b)))
				}
			}
			c.Reply(m, 0, output(9, b), script.AsAsked)
			return true
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	share := f.Share()
	if _, err := share.Stat("dfs/file"); !errors.Is(err, smb.ErrName) {
		t.Errorf("a DFS link: %v", err)
	}
	if target, err := share.Readlink("link"); !errors.Is(err, smb.ErrName) {
		t.Errorf("Readlink: %q, %v", target, err)
	}
	if list, err := share.Streams("file"); !errors.Is(err, smb.ErrName) || len(list) != 1 || list[0].Name != "b" {
		t.Errorf("Streams: %v, %v", list, err)
	}
	for _, name := range opened {
		if strings.Contains(name, "target") {
			t.Errorf("opened %q", name)
		}
	}
}

// TestListingMemory lists directories without an end, of names as long as they may be: what is live when the listing fails is at most
// a quarter more than Limits.MaxListing, and the entries that were read are returned.
func TestListingMemory(t *testing.T) {
	const most = 8 << 20
	for i, kind := range kinds() {
		s := protections()[kind]
		var n int
		var name string
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			switch m.Command {
			case proto.CommandCreate:
				name = script.NameOf(m)
				c.Opened(m, diskIDContext(uint64(len(name)+1)), func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
				return true
			case proto.CommandSetInfo:
				if name == "d" {
					c.Refuse(m, proto.StatusDirectoryNotEmpty)
					return true
				}
			case proto.CommandQueryDirectory:
				var list []script.Entry
				for range 100 {
					n++
					list = append(list, script.Entry{Name: strings.Repeat("日", 240) + fmt.Sprintf("%015d", n), Attributes: proto.AttrDirectory})
				}
				c.List(m, list...)
				return true
			}
			return false
		}
		f, err := scripted(t, s, smb.Dialer{Limits: smb.Limits{MaxListing: most}})
		must(t, err)
		share := f.Share()
		live := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		dir := func() *smb.File {
			d, err := share.Open("d")
			must(t, err)
			return d
		}()
		for what, list := range map[string]func() ([]fs.DirEntry, error){
			"ReadDir":      func() ([]fs.DirEntry, error) { return share.ReadDir("d") },
			"File.ReadDir": func() ([]fs.DirEntry, error) { return dir.ReadDir(-1) },
		} {
			before := live()
			got, err := list()
			bytes := live() - before
			if !errors.Is(err, smb.ErrTooMany) || len(got) < most/2/865 || bytes > most*5/4 {
				t.Errorf("%s: %s: %d entries, %d bytes live, %v", kind, what, len(got), bytes, err)
			}
			runtime.KeepAlive(got)
		}
		dir.Close()
		depth := 0
		if err := share.WalkDir("d", func(name string, _ fs.DirEntry, err error) error {
			depth = max(depth, strings.Count(name, "/"))
			return err
		}); !errors.Is(err, smb.ErrTooMany) || depth > 1 {
			t.Errorf("%s: WalkDir: %v, %d deep", kind, err, depth)
		}
		if i > 0 {
			continue // it removes as many entries as are listed, one after the other, and protection makes no difference to what it holds
		}
		if err := share.RemoveAll("d"); !errors.Is(err, smb.ErrTooMany) {
			t.Errorf("%s: RemoveAll: %v", kind, err)
		}
	}
}
