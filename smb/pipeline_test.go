package smb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// batched keeps back the replies to the first requests of one command until most of them wait, and then
// answers in reverse order: a client that keeps fewer in flight never gets the reply to the first.
func batched(s *script.Server, cmd proto.Command, most int) {
	type held struct {
		m    script.Message
		body []byte
	}
	var waiting []held
	done := false
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command != cmd || done {
			return false
		}
		waiting = append(waiting, held{*m, bytes.Clone(m.Body)})
		if len(waiting) < most {
			return true
		}
		done = true
		for i := len(waiting) - 1; i >= 0; i-- {
			w := waiting[i]
			w.m.Body = w.body
			c.Obey(&w.m)
		}
		return true
	}
}

// TestPipelined: one large call, and sequential reading and writing, keep several requests in flight, and the
// data of replies out of order is placed correctly.
func TestPipelined(t *testing.T) {
	const length = 6 << 20
	whole := func() []byte {
		b := make([]byte, length)
		for i := range b {
			b[i] = script.At(int64(i))
		}
		return b
	}()
	for name, c := range map[string]struct {
		cmd proto.Command
		use func(*testing.T, *smb.File)
	}{
		"ReadAt": {proto.CommandRead, func(t *testing.T, f *smb.File) { checkRead(t, f, length-5, 5) }},
		"WriteAt": {proto.CommandWrite, func(t *testing.T, f *smb.File) {
			if n, err := f.WriteAt(whole, 0); n != length || err != nil {
				t.Error(n, err)
			}
		}},
		"Read": {proto.CommandRead, func(t *testing.T, f *smb.File) {
			var got bytes.Buffer
			if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(got.Bytes(), whole) {
				t.Error("read other content")
			}
		}},
		"WriteTo": {proto.CommandRead, func(t *testing.T, f *smb.File) {
			var got bytes.Buffer
			if _, err := f.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), whole) {
				t.Error("read other content", err)
			}
		}},
		"ReadFrom": {proto.CommandWrite, func(t *testing.T, f *smb.File) {
			if n, err := f.ReadFrom(bytes.NewReader(whole)); n != length || err != nil {
				t.Error(n, err)
			}
		}},
	} {
		for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				s := protections()[kind]
				s.Size = length
				most := 4
				if name == "Read" || name == "WriteTo" {
					most = 2 // reading ahead begins with two and doubles
				}
				f, err := scripted(t, s, smb.Dialer{})
				if name == "Read" {
					// The first sequential reads are single: keep back later ones.
					skip := 0
					batched(s, c.cmd, most)
					hold := s.Hook
					s.Hook = func(sc *script.Conn, m *script.Message) bool {
						if m.Command == c.cmd {
							skip++
						}
						if skip <= 2 {
							return false
						}
						return hold(sc, m)
					}
				} else {
					batched(s, c.cmd, most)
				}
				must(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				c.use(t, f.WithContext(ctx))
			})
		}
	}
}

// TestDiskFull writes to a server without space: acknowledged bytes are counted, others not.
func TestDiskFull(t *testing.T) {
	eachKind(t, testDiskFull)
}

func testDiskFull(t *testing.T, s *script.Server) {
	writes, acknowledged := 0, 0
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command != proto.CommandWrite {
			return false
		}
		if writes++; writes == 3 {
			c.Refuse(m, proto.StatusDiskFull)
			return true
		}
		if writes < 3 {
			acknowledged += int(le.Uint32(m.Body[4:]))
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	n, err := f.WriteAt(make([]byte, 6<<20), 0)
	var re *smb.ResponseError
	if n != acknowledged || n == 0 || !errors.As(err, &re) || re.Status.Error() != "STATUS_DISK_FULL" {
		t.Errorf("%d, %v", n, err)
	}
}

// TestRealDiskFull fills a small file system, where this machine allows it to be mounted; otherwise only
// TestDiskFull's scripted server tests it.
func TestRealDiskFull(t *testing.T) {
	eachMode(t, rig.Config{}, testRealDiskFull)
}

func testRealDiskFull(t *testing.T, srv *rig.Server) {
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", srv.Dir).CombinedOutput(); err != nil {
		leftout.Skip(t, fmt.Sprintf("a file system cannot be mounted here: %v: %s", err, out))
	}
	defer exec.Command("umount", "-l", srv.Dir).Run()
	must(t, srv.Own(srv.Dir))
	share := mount(t, srv, smb.Dialer{})
	must(t, share.WriteFile("old", []byte("old content"), 0o666))
	f, err := share.Create("big")
	must(t, err)
	want := random(10 << 20)
	n, err := f.Write(want)
	if err == nil || n > 4<<20 {
		t.Errorf("%d, %v", n, err)
	}
	disk, rerr := os.ReadFile(filepath.Join(srv.Dir, "big"))
	must(t, rerr)
	if len(disk) < n || !bytes.Equal(disk[:n], want[:n]) {
		t.Errorf("%d bytes acknowledged, %d on disk", n, len(disk))
	}
	f.Close()
	// The calls that write all of a file leave no part of it behind.
	for name, write := range map[string]func() error{
		"ReplaceFile":  func() error { return share.ReplaceFile("new", want, 0o666, time.Time{}) },
		"WriteNewFile": func() error { return share.WriteNewFile("new", want, 0o666, time.Time{}) },
	} {
		if err := write(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
		if list, err := os.ReadDir(srv.Dir); err != nil || len(list) != 2 {
			t.Errorf("%s: left behind: %v, %v", name, list, err)
		}
	}
	// Of a file that fits in one frame nothing can be written, or a part.
	for _, room := range []int64{0, 20 << 10} {
		must(t, os.Truncate(filepath.Join(srv.Dir, "big"), int64(len(disk))-room))
		for name, write := range map[string]func(data []byte) error{
			"ReplaceFile":  func(data []byte) error { return share.ReplaceFile("old", data, 0o666, time.Time{}) },
			"WriteNewFile": func(data []byte) error { return share.WriteNewFile("new", data, 0o666, time.Time{}) },
		} {
			if err := write(want[:64<<10]); !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("%s with room for %d bytes: %v", name, room, err)
			}
			list, err := os.ReadDir(srv.Dir)
			must(t, err)
			old, err := os.ReadFile(filepath.Join(srv.Dir, "old"))
			if len(list) != 2 || err != nil || string(old) != "old content" {
				t.Errorf("%s with room for %d bytes: left behind %v; old file of %d bytes, %v", name, room, list, len(old), err)
			}
		}
	}
}
