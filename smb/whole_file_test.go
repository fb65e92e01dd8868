package smb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestRoundTrips counts the requests for small files: what the CREATE reply and a short READ reply contain is
// not requested again.
func TestRoundTrips(t *testing.T) {
	for _, kind := range kinds() {
		for _, size := range []int64{0, 6, 4096, 40_000} {
			want := make([]byte, size)
			for i := range want {
				want[i] = script.At(int64(i))
			}
			var mu sync.Mutex
			count := map[proto.Command]int{}
			s := protections()[kind]
			s.Size = size
			if size == 0 {
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					mu.Lock()
					count[m.Command]++
					mu.Unlock()
					switch m.Command {
					case proto.CommandCreate:
						c.Opened(m, nil, func(b []byte) { le.PutUint64(b[48:], 0) })
						return true
					case proto.CommandRead:
						c.Refuse(m, proto.StatusEndOfFile)
						return true
					}
					return false
				}
			} else {
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					mu.Lock()
					defer mu.Unlock()
					count[m.Command]++
					return false
				}
			}
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			share := f.Share()
			read := func(use func(f *smb.File) ([]byte, error)) func() ([]byte, error) {
				return func() ([]byte, error) {
					f, err := share.Open("file")
					if err != nil {
						return nil, err
					}
					b, err := use(f)
					return b, errors.Join(err, f.Close())
				}
			}
			for name, use := range map[string]func() ([]byte, error){
				"ReadFile": func() ([]byte, error) { return share.ReadFile("file") },
				"ReadAll":  read(func(f *smb.File) ([]byte, error) { return io.ReadAll(f) }),
				"WriteTo": read(func(f *smb.File) ([]byte, error) {
					var b bytes.Buffer
					_, err := f.WriteTo(&b)
					return b.Bytes(), err
				}),
			} {
				mu.Lock()
				clear(count)
				mu.Unlock()
				got, err := use()
				mu.Lock()
				asked := maps.Clone(count)
				mu.Unlock()
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%s, %s of %d bytes: %d bytes, %v", kind, name, size, len(got), err)
				}
				if asked[proto.CommandCreate] != 1 || asked[proto.CommandRead] != 1 || asked[proto.CommandClose] != 1 || len(asked) != 3 {
					t.Errorf("%s, %s of %d bytes: %v", kind, name, size, asked)
				}
			}
			mu.Lock()
			clear(count)
			mu.Unlock()
			must(t, share.WriteFile("file", want, 0o666))
			must(t, share.ReplaceFile("file", want, 0o666, time.Now())) // renames in a frame of its own
			mu.Lock()
			if n := min(1, int(size)); count[proto.CommandCreate] != 3 || count[proto.CommandWrite] != 2*n || count[proto.CommandClose] != 3 || count[proto.CommandSetInfo] != 2 {
				t.Errorf("%s, writing %d bytes: %v", kind, size, count)
			}
			mu.Unlock()
		}
	}
}

// TestWholeFiles writes and reads files of every length around the limits.
func TestWholeFiles(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			share := mount(t, srv, smb.Dialer{})
			when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
			for _, size := range []int{0, 1, 4096, 65535, 65536, 65537, 1 << 20, 3<<20 + 1} {
				for name, write := range map[string]func(string, []byte) error{
					"WriteFile":   func(n string, b []byte) error { return share.WriteFile(n, b, 0o666) },
					"ReplaceFile": func(n string, b []byte) error { return share.ReplaceFile(n, b, 0o666, when) },
				} {
					want := random(size)
					must(t, write("w", want))
					if !bytes.Equal(onDisk(t, srv, "w"), want) {
						t.Fatalf("%s of %d bytes: the disk has other content", name, size)
					}
					b, err := share.ReadFile("w")
					if err != nil || !bytes.Equal(b, want) {
						t.Fatalf("ReadFile of %d bytes: %d, %v", size, len(b), err)
					}
					b, fi, err := share.ReadFileInfo("w")
					if err != nil || !bytes.Equal(b, want) || fi.Size() != int64(size) || name == "ReplaceFile" && !fi.ModTime().Equal(when) {
						t.Fatalf("ReadFileInfo of %d bytes: %d, %v, %v", size, len(b), fi, err)
					}
				}
			}
			must(t, share.Mkdir("dir", 0o777))
			for _, err := range []error{
				func() error { _, err := share.ReadFile("dir"); return err }(),
				share.WriteFile("dir", []byte("x"), 0o666),
				share.ReplaceFile("dir", []byte("x"), 0o666, when),
			} {
				if err == nil {
					t.Error("a directory was taken for a file")
				}
			}
			if _, err := share.ReadFile("missing"); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			if err := share.ReplaceFile("missing/w", []byte("x"), 0o666, when); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			list, err := os.ReadDir(srv.Dir)
			must(t, err)
			if len(list) != 2 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
}

// TestReplaceFullDisk fills the disk during ReplaceFile: the error says so, and only the old file exists. The server goes on with the
// frame after a request that it refuses, as Samba does (TestRealDiskFull).
func TestReplaceFullDisk(t *testing.T) { eachKind(t, testReplaceFullDisk) }

func testReplaceFullDisk(t *testing.T, s *script.Server) {
	var removed []string
	opened := ""
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		switch m.Command {
		case proto.CommandCreate:
			opened = script.NameOf(m)
		case proto.CommandWrite:
			c.Refuse(m, proto.StatusDiskFull)
			return true
		case proto.CommandSetInfo:
			switch proto.InfoClass(m.Body[3]) {
			case proto.ClassRename:
				t.Error("the file was renamed")
			case proto.ClassDisposition:
				removed = append(removed, opened)
			}
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	for _, size := range []int{100, 100_000} {
		removed = nil
		err := f.Share().ReplaceFile("d/f", make([]byte, size), 0o666, time.Time{})
		if !errors.Is(err, syscall.ENOSPC) || len(removed) != 1 {
			t.Errorf("%d bytes: %v, removed %q", size, err, removed)
		}
	}
}

// TestReplaceCancelled ends the context of a ReplaceFile after the file has been created: it is removed
// nevertheless.
func TestReplaceCancelled(t *testing.T) { eachKind(t, testReplaceCancelled) }

func testReplaceCancelled(t *testing.T, s *script.Server) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var removed []string
	opened := ""
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		switch m.Command {
		case proto.CommandCreate:
			opened = script.NameOf(m)
		case proto.CommandWrite:
			cancel()
			c.Pend(m, 1)
			return true
		case proto.CommandCancel:
			return true
		case proto.CommandSetInfo:
			if proto.InfoClass(m.Body[3]) == proto.ClassDisposition {
				removed = append(removed, opened)
			}
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	err = f.Share().WithContext(ctx).ReplaceFile("d/f", make([]byte, 100_000), 0o666, time.Time{})
	if !errors.Is(err, context.Canceled) || len(removed) != 1 {
		t.Errorf("%v, removed %q", err, removed)
	}
}

// TestReadFileInfoChanged changes a file between its CREATE and its CLOSE.
func TestReadFileInfoChanged(t *testing.T) { eachKind(t, testReadFileInfoChanged) }

func testReadFileInfoChanged(t *testing.T, s *script.Server) {
	for _, size := range []int64{1000, 1 << 20} {
		s.Size = size
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			switch m.Command {
			case proto.CommandClose:
				b := make([]byte, 60)
				b[0], b[2] = 60, 1
				le.PutUint64(b[24:], 777) // another last write time
				le.PutUint64(b[48:], uint64(size))
				c.Reply(m, 0, b, script.AsAsked)
				return true
			case proto.CommandQueryInfo:
				b := append([]byte{9, 0, 72, 0, 56, 0, 0, 0}, make([]byte, 56)...)
				le.PutUint64(b[8+16:], 777)
				le.PutUint64(b[8+40:], uint64(size))
				c.Reply(m, 0, b, script.AsAsked)
				return true
			}
			return false
		}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		if b, _, err := f.Share().ReadFileInfo("file"); len(b) != int(size) || !errors.Is(err, smb.ErrChanged) {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		if b, err := f.Share().ReadFile("file"); len(b) != int(size) || err != nil {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}

// TestReadFileWithoutDurableHandle loses the connection while a file is read of which the server keeps no handle: it is opened and read
// again, but not for ever.
func TestReadFileWithoutDurableHandle(t *testing.T) {
	for _, kind := range kinds() {
		for _, losses := range []int64{1, 3, 1000} {
			t.Run(fmt.Sprint(kind, "/", losses), func(t *testing.T) {
				const size = 5 << 20
				var lost, opened atomic.Int64
				s := protections()[kind]
				s.Size = size
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					switch m.Command {
					case proto.CommandCreate:
						opened.Add(1)
					case proto.CommandQueryInfo: // the times of the CREATE reply
						b := append([]byte{9, 0, 72, 0, 56, 0, 0, 0}, make([]byte, 56)...)
						le.PutUint64(b[8+40:], size)
						c.Reply(m, 0, b, script.AsAsked)
						return true
					case proto.CommandRead:
						if off, _ := c.Range(m); off >= size/2 && lost.Add(1) <= losses {
							c.Close()
							return true
						}
					}
					return false
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				for name, read := range map[string]func() ([]byte, error){
					"ReadFile":     func() ([]byte, error) { return f.Share().ReadFile("file") },
					"ReadFileInfo": func() ([]byte, error) { b, _, err := f.Share().ReadFileInfo("file"); return b, err },
				} {
					lost.Store(0)
					opened.Store(0)
					b, err := read()
					if losses == 1000 {
						if !errors.Is(err, smb.ErrHandleLost) || opened.Load() > 7 {
							t.Errorf("%s: %v, opened %d times", name, err, opened.Load())
						}
						continue
					}
					if err != nil || len(b) != size {
						t.Fatalf("%s: %d bytes, %v", name, len(b), err)
					}
					for i, got := range b {
						if got != script.At(int64(i)) {
							t.Fatalf("%s: wrong byte at %d", name, i)
						}
					}
				}
			})
		}
	}
}

// TestIdleReader reads a small file with the context ended in between.
func TestIdleReader(t *testing.T) {
	f, err := scripted(t, &script.Server{Size: 6}, smb.Dialer{})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	g := f.WithContext(ctx)
	if n, err := g.Read(make([]byte, 2)); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	cancel()
	if _, err := g.Read(make([]byte, 2)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if b, err := io.ReadAll(f); len(b) != 4 || err != nil {
		t.Error(b, err)
	}
}
