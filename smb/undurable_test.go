package smb_test

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestUndurable has a server open files without durable handles: after three files in a row for which it granted the oplock that
// a durable handle needs, neither is requested any more on that connection. Files that it could not have made durable do not count.
func TestUndurable(t *testing.T) {
	const (
		file, directory, stream = "", "directory", "stream"
		asks, asksNoMore        = true, false
	)
	type answer struct {
		what    string
		oplock  proto.OplockLevel
		durable bool
		asked   bool // before: whether the CREATE requests a durable handle
	}
	refused := answer{file, proto.OplockBatch, false, asks}
	for name, answers := range map[string][]answer{
		"refused":             {refused, refused, refused, {file, proto.OplockNone, false, asksNoMore}, {file, proto.OplockNone, false, asksNoMore}},
		"granted in between":  {refused, refused, {file, proto.OplockBatch, true, asks}, refused, refused, {file, proto.OplockBatch, true, asks}, refused},
		"no oplock either":    {{file, proto.OplockNone, false, asks}, {file, proto.OplockII, false, asks}, refused, refused, {file, proto.OplockNone, false, asks}},
		"of directories only": {{directory, proto.OplockBatch, false, asks}, {directory, proto.OplockBatch, false, asks}, {directory, proto.OplockBatch, false, asks}, refused},
		"of streams only":     {{stream, proto.OplockBatch, false, asks}, {stream, proto.OplockBatch, false, asks}, {stream, proto.OplockBatch, false, asks}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			var next answer
			var request []byte
			var live *script.Conn
			s := &script.Server{}
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				live = c
				if m.Command != proto.CommandCreate {
					return false
				}
				request = bytes.Clone(m.Body)
				var contexts []byte
				if next.durable {
					contexts = durableGrant()
				}
				c.Opened(m, contexts, func(b []byte) {
					b[2] = byte(next.oplock)
					if next.what == directory {
						le.PutUint32(b[56:], uint32(proto.AttrDirectory))
					}
				})
				return true
			}
			d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, s.Dial), Limits: smb.Limits{KeepAlive: -1}}
			session, err := d.Dial(context.Background(), "scripted")
			must(t, err)
			defer session.Close()
			share, err := session.Mount(context.Background(), "share")
			must(t, err)
			open := func(what string) (*smb.File, error) {
				if what == stream {
					return share.OpenStream("file", what, os.O_RDONLY, 0)
				}
				return share.Open("file")
			}
			for i, a := range answers {
				next = a
				f, err := open(a.what)
				must(t, err)
				if got := bytes.Contains(request, []byte("DH2Q")); got != a.asked || request[3] != byte(oplockFor(a.asked)) {
					t.Errorf("CREATE %d: durable handle requested: %v; oplock %d", i+1, got, request[3])
				}
				must(t, f.Close())
			}
			// Another connection, perhaps of a server with other settings, is asked again.
			live.Close()
			next = refused
			f, err := open(file)
			must(t, err)
			if !bytes.Contains(request, []byte("DH2Q")) {
				t.Error("no durable handle is requested on the next connection")
			}
			must(t, f.Close())
		})
	}
}

// oplockFor is the oplock that is requested with a durable handle, or without one.
func oplockFor(durable bool) proto.OplockLevel {
	if durable {
		return proto.OplockBatch
	}
	return proto.OplockNone
}
