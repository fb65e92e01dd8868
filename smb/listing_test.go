package smb_test

import (
	"errors"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// A listing that contains a name with a path is refused by each call that lists.
func TestPathsInListing(t *testing.T) {
	for _, name := range []string{"../x", `..\x`, "/etc/passwd", "a/b", `a\b`, "x\x00y", ""} {
		s := &script.Server{Hook: func(c *script.Conn, m *script.Message) bool {
			switch m.Command {
			case proto.CommandCreate:
				c.Opened(m, nil, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
				return true
			case proto.CommandQueryDirectory:
				c.List(m, script.Entry{Name: "good"}, script.Entry{Name: name})
				return true
			}
			return false
		}}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		for what, list := range map[string]func() error{
			"ReadDir":      func() error { _, err := f.Share().ReadDir("d"); return err },
			"File.ReadDir": func() error { _, err := f.ReadDir(-1); return err },
		} {
			if err := list(); !errors.Is(err, smb.ErrProtocol) {
				t.Errorf("%s with the name %q: %v", what, name, err)
			}
		}
	}
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
