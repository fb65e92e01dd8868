package smb_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestCopyToItself copies a file to itself by every name it has.
func TestCopyToItself(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			share := mount(t, srv, smb.Dialer{})
			want := random(100_000)
			must(t, share.WriteFile("x", want, 0o666))
			must(t, os.Link(filepath.Join(srv.Dir, "x"), filepath.Join(srv.Dir, "hard")))
			must(t, os.Symlink("x", filepath.Join(srv.Dir, "soft")))
			for _, names := range [][2]string{{"x", "x"}, {"X", "x"}, {"./x", "x"}, {"hard", "x"}, {"x", "soft"}} {
				n, err := share.Copy(names[0], names[1])
				if n != 0 || !errors.Is(err, smb.ErrSameFile) {
					t.Errorf("Copy%v = %d, %v", names, n, err)
				}
				if !bytes.Equal(onDisk(t, srv, "x"), want) {
					t.Fatalf("Copy%v changed the file", names)
				}
			}
			// Over a longer file, and to a new one.
			must(t, share.WriteFile("long", random(300_000), 0o666))
			for _, dst := range []string{"long", "new"} {
				if n, err := share.Copy(dst, "x"); n != int64(len(want)) || err != nil || !bytes.Equal(onDisk(t, srv, dst), want) {
					t.Errorf("Copy to %s: %d, %v", dst, n, err)
				}
			}
		})
	}
}

// TestCopyWithoutIDs copies on a server that tells no file ids: to a file of another name, which
// is renamed when it is complete, and removed when it is not.
func TestCopyWithoutIDs(t *testing.T) {
	for _, full := range []bool{false, true} {
		var opened []string
		renames, deletes := 0, 0
		s := &script.Server{Size: 1000, Hook: func(c *script.Conn, m *script.Message) bool {
			switch m.Command {
			case proto.CommandCreate:
				opened = append(opened, script.NameOf(m))
			case proto.CommandIoctl:
				b := make([]byte, 48, 96)
				b[0] = 49
				le.PutUint32(b[4:], le.Uint32(m.Body[4:]))
				le.PutUint32(b[32:], 64+48)
				switch le.Uint32(m.Body[4:]) {
				case proto.FsctlRequestResumeKey:
					b = b[:48+32]
				case proto.FsctlCopyChunkWrite:
					if full {
						c.Refuse(m, proto.StatusDiskFull)
						return true
					}
					b = b[:48+12]
					le.PutUint32(b[48+8:], 1000)
				default:
					return false
				}
				le.PutUint32(b[36:], uint32(len(b)-48))
				c.Reply(m, 0, b, script.AsAsked)
				return true
			case proto.CommandSetInfo:
				switch proto.InfoClass(m.Body[3]) {
				case proto.ClassRename:
					renames++
				case proto.ClassDisposition:
					deletes++
				}
			case proto.CommandQueryInfo:
				if proto.InfoClass(m.Body[3]) == proto.ClassNetworkOpen {
					b := append([]byte{9, 0, 72, 0, 56, 0, 0, 0}, make([]byte, 56)...)
					le.PutUint64(b[8+40:], 1000)
					c.Reply(m, 0, b, script.AsAsked)
					return true
				}
			}
			return false
		}}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		_, err = f.Share().Copy("d/a", "d/b")
		if full != (err != nil) || renames == 0 == !full || deletes == 0 == full {
			t.Errorf("full %v: %v, %d renames, %d deletions, opened %q", full, err, renames, deletes, opened)
		}
	}
}
