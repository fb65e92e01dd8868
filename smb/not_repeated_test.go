package smb_test

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestNotRepeated closes the connection when a request has arrived whose operation may have taken effect: the
// client does not send it again, and the error matches ErrConnLost.
func TestNotRepeated(t *testing.T) {
	for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
		for _, c := range []struct {
			name string
			cmd  proto.Command
			op   func(t *testing.T, share *smb.Share, f *smb.File) error
		}{
			{"Mkdir", proto.CommandCreate, func(_ *testing.T, s *smb.Share, _ *smb.File) error { return s.Mkdir("new", 0o777) }},
			{"Remove", proto.CommandCreate, func(_ *testing.T, s *smb.Share, _ *smb.File) error { return s.Remove("file") }},
			{"Rename", proto.CommandCreate, func(_ *testing.T, s *smb.Share, _ *smb.File) error { return s.Rename("file", "new") }},
			{"MkdirAll", proto.CommandCreate, func(_ *testing.T, s *smb.Share, _ *smb.File) error { return s.MkdirAll("new", 0o777) }},
			{"RemoveAll", proto.CommandCreate, func(_ *testing.T, s *smb.Share, _ *smb.File) error { return s.RemoveAll("file") }},
			{"RemoveStream", proto.CommandCreate, func(_ *testing.T, s *smb.Share, _ *smb.File) error { return s.RemoveStream("file", "stream") }},
			{"Symlink", proto.CommandCreate, func(_ *testing.T, s *smb.Share, _ *smb.File) error { return s.Symlink("file", "new") }},
			{"O_EXCL", proto.CommandCreate, func(_ *testing.T, s *smb.Share, _ *smb.File) error {
				_, err := s.OpenFile("new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
				return err
			}},
			{"WriteNewFile", proto.CommandWrite, func(_ *testing.T, s *smb.Share, _ *smb.File) error {
				return s.WriteNewFile("new", []byte("x"), 0o666, time.Time{})
			}},
			{"ReplaceFile", proto.CommandWrite, func(_ *testing.T, s *smb.Share, _ *smb.File) error {
				return s.ReplaceFile("new", []byte("x"), 0o666, time.Time{})
			}},
			{"Lock", proto.CommandLock, func(_ *testing.T, _ *smb.Share, f *smb.File) error { return f.Lock(0, 1, smb.LockExclusive) }},
			{"Unlock", proto.CommandLock, func(_ *testing.T, _ *smb.Share, f *smb.File) error { return f.Unlock(0, 1) }},
		} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				var armed atomic.Bool
				var came atomic.Int32
				s := protections()[kind]
				s.Hook = func(sc *script.Conn, m *script.Message) bool {
					if m.Command == proto.CommandCreate && script.NameOf(m) == "" {
						sc.Opened(m, nil, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
						return true
					}
					if m.Command != c.cmd || !armed.Load() {
						return false
					}
					if m.Command == proto.CommandCreate && !changes(m) {
						if script.NameOf(m) != "new" {
							return false
						}
						sc.Refuse(m, proto.StatusObjectNameNotFound)
						return true
					}
					came.Add(1)
					sc.Close()
					return true
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				if c.cmd == proto.CommandCreate {
					defer f.Close()
				}
				armed.Store(true)
				err = c.op(t, f.Share(), f)
				if !errors.Is(err, smb.ErrConnLost) {
					t.Errorf("got %v", err)
				}
				if n := came.Load(); n != 1 {
					t.Errorf("the request was received %d times", n)
				}
				armed.Store(false)
				if _, err := f.Share().Stat("file"); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		}
	}
}

// changes reports whether m, a CREATE, makes a file or is to delete or rename one.
func changes(m *script.Message) bool {
	return proto.Disposition(le.Uint32(m.Body[36:])) != proto.DispositionOpen || proto.Access(le.Uint32(m.Body[24:]))&proto.AccessDelete != 0
}
