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

// TestUndurable has a server open files without durable handles: after three files in a row for which it granted the oplock, or the
// lease, that a durable handle needs, neither is requested any more on that connection. Files that it could not have made durable do not
// count.
func TestUndurable(t *testing.T) {
	t.Run("oplocks", func(t *testing.T) { testUndurable(t, oplocks()) })
	t.Run("leases", func(t *testing.T) { testUndurable(t, leases()) })
}

// cachingRights are the means by which a server lets a client cache a file.
type cachingRights struct {
	capabilities proto.Capabilities
	requested    proto.OplockLevel // with a durable handle
	// grant is the oplock level of a reply, and the context in which a lease is granted, for the oplock that has the same rights.
	grant func(as proto.OplockLevel) (level proto.OplockLevel, context []byte)
}

func oplocks() cachingRights {
	return cachingRights{0, proto.OplockBatch, func(as proto.OplockLevel) (proto.OplockLevel, []byte) { return as, nil }}
}

func leases() cachingRights {
	return cachingRights{proto.CapLeasing, proto.OplockLease, func(as proto.OplockLevel) (proto.OplockLevel, []byte) {
		switch as {
		case proto.OplockBatch:
			return proto.OplockLease, leaseGrant(proto.LeaseRead | proto.LeaseHandle)
		case proto.OplockII:
			return proto.OplockLease, leaseGrant(proto.LeaseRead)
		}
		return as, nil
	}}
}

// leaseGrant is a create context that grants a lease (MS-SMB2 2.2.14.2.10).
func leaseGrant(state proto.LeaseState) []byte {
	b := make([]byte, 56)
	le.PutUint16(b[4:], 16)
	le.PutUint16(b[6:], 4)
	le.PutUint16(b[10:], 24)
	le.PutUint32(b[12:], 32)
	copy(b[16:], "RqLs")
	le.PutUint32(b[24+16:], uint32(state))
	return b
}

func testUndurable(t *testing.T, rights cachingRights) {
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
			s := &script.Server{Capabilities: rights.capabilities}
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				live = c
				if m.Command != proto.CommandCreate {
					return false
				}
				request = bytes.Clone(m.Body)
				level, contexts := rights.grant(next.oplock)
				if next.durable {
					if len(contexts) > 0 {
						le.PutUint32(contexts, uint32(len(contexts))) // another one follows
					}
					contexts = append(contexts, durableGrant()...)
				}
				c.Opened(m, contexts, func(b []byte) {
					b[2] = byte(level)
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
				want := proto.OplockNone
				if a.asked {
					want = rights.requested
				}
				lease := bytes.Contains(request, []byte("RqLs"))
				if got := bytes.Contains(request, []byte("DH2Q")); got != a.asked || request[3] != byte(want) || lease != (want == proto.OplockLease) {
					t.Errorf("CREATE %d: durable handle requested: %v; oplock %d; lease: %v", i+1, got, request[3], lease)
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
