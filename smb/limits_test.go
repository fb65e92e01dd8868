package smb_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// A server reports files of 2^63 bytes and more.
func TestImpossibleLength(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) { testImpossibleLength(t, kind) })
	}
}

func testImpossibleLength(t *testing.T, kind string) {
	for _, size := range []uint64{1 << 63, math.MaxUint64} {
		for name, use := range map[string]func(*smb.Share) error{
			"ReadFile": func(s *smb.Share) error { _, err := s.ReadFile("big"); return err },
			"Stat":     func(s *smb.Share) error { _, err := s.Stat("big"); return err },
			"Open":     func(s *smb.Share) error { _, err := s.Open("big"); return err },
			"ReadDir":  func(s *smb.Share) error { _, err := s.ReadDir("."); return err },
		} {
			s := protections()[kind]
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch {
				case m.Command == proto.CommandCreate && script.NameOf(m) == "big":
					c.Opened(m, nil, func(b []byte) { le.PutUint64(b[48:], size) })
					return true
				case m.Command == proto.CommandQueryDirectory:
					c.List(m, script.Entry{Name: "big", Size: size})
					return true
				}
				return false
			}
			f, err := scripted(t, s, smb.Dialer{NoReconnect: true})
			must(t, err)
			if err := use(f.Share()); !errors.Is(err, smb.ErrProtocol) {
				t.Errorf("%s of %d bytes: %v", name, size, err)
			}
		}
	}
}

// TestLargestLength reads a file of 2^63-1 bytes, of which the server has few.
func TestLargestLength(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		s.Size = 1000
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			if m.Command != proto.CommandCreate {
				return false
			}
			c.Opened(m, nil, func(b []byte) { le.PutUint64(b[48:], math.MaxInt64) })
			return true
		}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		if b, err := f.Share().ReadFile("big"); len(b) != 1000 || err != nil {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	})
}

// A server's listing never ends, once with the same entries and once with new ones.
func TestEndlessListing(t *testing.T) {
	for _, c := range []struct {
		name   string
		repeat bool
		want   error
	}{{"repeating itself", true, smb.ErrProtocol}, {"always new", false, smb.ErrTooMany}} {
		for _, kind := range kinds() {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				s := protections()[kind]
				n := 0
				s.Hook = func(conn *script.Conn, m *script.Message) bool {
					if m.Command != proto.CommandQueryDirectory {
						return false
					}
					var list []script.Entry
					for i := range 100 {
						if !c.repeat {
							i = n
							n++
						}
						list = append(list, script.Entry{Name: fmt.Sprint(i)})
					}
					conn.List(m, list...)
					return true
				}
				f, err := scripted(t, s, smb.Dialer{Limits: smb.Limits{MaxEntries: 5000}})
				must(t, err)
				if list, err := f.Share().ReadDir("."); !errors.Is(err, c.want) {
					t.Errorf("%d entries, %v", len(list), err)
				}
			})
		}
	}
}

// TestDirectoryInItself walks a directory that contains itself, once with the same id and once with new ids.
func TestDirectoryInItself(t *testing.T) {
	withoutDetector(t)
	for _, ids := range []string{"the same id", "new ids", "the same id when it is opened", "new ids when it is opened"} {
		t.Run(ids, func(t *testing.T) {
			for _, kind := range kinds() {
				// New ids are followed to the depth that bounds a walk, which takes thousands of requests.
				if kind != "plain" && strings.HasPrefix(ids, "new ids") && os.Getenv("TARN_LONG") == "" {
					continue
				}
				t.Run(kind, func(t *testing.T) { testDirectoryInItself(t, protections()[kind], ids) })
			}
		})
	}
}

// directoryInItself is the hook of a server whose directories contain one directory each.
func directoryInItself(ids string) func(c *script.Conn, m *script.Message) bool {
	opened := strings.HasSuffix(ids, "opened")
	id, listed := uint64(7), false
	return func(c *script.Conn, m *script.Message) bool {
		switch m.Command {
		case proto.CommandCreate:
			var contexts []byte
			if opened {
				contexts = diskIDContext(id)
			}
			c.Opened(m, contexts, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
			listed = false
			return true
		case proto.CommandQueryDirectory:
			if listed && !script.Restarts(m) {
				c.Refuse(m, proto.StatusNoMoreFiles)
				return true
			}
			listed = true
			if strings.HasPrefix(ids, "new ids") {
				id++
			}
			c.List(m, script.Entry{Name: "d", Attributes: proto.AttrDirectory, ID: id})
			return true
		case proto.CommandSetInfo:
			c.Refuse(m, proto.StatusDirectoryNotEmpty)
			return true
		}
		return false
	}
}

func testDirectoryInItself(t *testing.T, s *script.Server, ids string) {
	s.Hook = directoryInItself(ids)
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	visits, reported := 0, error(nil)
	err = f.Share().WalkDir("d", func(name string, d fs.DirEntry, err error) error {
		visits++
		if err != nil {
			reported = err
		}
		return nil
	})
	if err != nil || reported == nil || visits > 3000 || strings.HasPrefix(ids, "the same") && visits > 10 {
		t.Errorf("%d visits, %v, reported %v", visits, err, reported)
	}
}

// TestRemoveDirectoryInItself removes a directory that contains itself. RemoveAll sees no ids: it descends to maxDepth.
// With TARN_LONG=1 it does so in plain, signed and encrypted sessions.
func TestRemoveDirectoryInItself(t *testing.T) {
	withoutDetector(t)
	for _, kind := range kinds() {
		if kind != "plain" && os.Getenv("TARN_LONG") == "" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			answer, opened := directoryInItself("the same id"), 0
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				if m.Command == proto.CommandCreate {
					opened++
				}
				return answer(c, m)
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			if err := f.Share().RemoveAll("d"); err == nil {
				t.Error("RemoveAll returned nil")
			}
			const maxDepth = 2048
			if opened < maxDepth {
				t.Errorf("%d files opened, want one at each of %d depths", opened, maxDepth)
			}
		})
	}
}

// Reparse points have the modes that package os gives them.
func TestReparseModes(t *testing.T) {
	eachKind(t, testReparseModes)
}

func testReparseModes(t *testing.T, s *script.Server) {
	const file, dir = proto.AttrReparsePoint | proto.AttrArchive, proto.AttrReparsePoint | proto.AttrDirectory
	cases := []struct {
		attrs proto.Attributes
		tag   uint32
		want  fs.FileMode
	}{
		{file, 0x80000013, 0},                        // deduplicated
		{file, 0x9000001a, 0}, {file, 0x9000601a, 0}, // in a cloud's tier
		{dir, 0x9000701a, fs.ModeDir},
		{file, 0x8000001e, 0}, // Azure File Sync
		{file, 0x80000017, 0}, // compressed
		{file, 0xa000000c, fs.ModeSymlink}, {dir, 0xa000000c, fs.ModeSymlink},
		{dir, 0xa0000003, fs.ModeIrregular}, // mount point
		{file, 0x80000023, fs.ModeSocket},
		{file, 0x80001234, fs.ModeIrregular}, {dir, 0x80001234, fs.ModeDir | fs.ModeIrregular},
	}
	done, asked := false, 0
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		switch m.Command {
		case proto.CommandQueryDirectory:
			if done && !script.Restarts(m) {
				c.Refuse(m, proto.StatusNoMoreFiles)
				return true
			}
			done = true
			var list []script.Entry
			for i, x := range cases {
				list = append(list, script.Entry{Name: fmt.Sprintf("%02d", i), Attributes: x.attrs, Tag: x.tag})
			}
			c.List(m, list...)
			return true
		case proto.CommandCreate:
			var i int
			if n, _ := fmt.Sscanf(script.NameOf(m), "%02d", &i); n == 1 {
				c.Opened(m, nil, func(b []byte) { le.PutUint32(b[56:], uint32(cases[i].attrs)); le.PutUint64(b[72:], uint64(i)) })
				asked = i
				return true
			}
		case proto.CommandQueryInfo:
			b := []byte{9, 0, 72, 0, 8, 0, 0, 0}
			b = le.AppendUint32(b, uint32(cases[asked].attrs))
			c.Reply(m, 0, le.AppendUint32(b, cases[asked].tag), script.AsAsked)
			return true
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	list, err := f.Share().ReadDir(".")
	must(t, err)
	for i, x := range cases {
		if got := list[i].Type(); got != x.want {
			t.Errorf("tag %#x, attributes %#x: listed as %v, want %v", x.tag, x.attrs, got, x.want)
		}
		fi, err := f.Share().Lstat(list[i].Name())
		if err != nil || fi.Mode().Type() != x.want {
			t.Errorf("tag %#x, attributes %#x: Lstat says %v, %v", x.tag, x.attrs, fi, err)
		}
	}
}
