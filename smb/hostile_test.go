package smb_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

var le = binary.LittleEndian

// lie is a malformed or forbidden reply to a READ.
type lie struct {
	name string
	tell func(c *script.Conn, m *script.Message)
	want error
}

// readReply makes a valid READ reply of n bytes, lets spoil change it, and sends it.
func readReply(c *script.Conn, m *script.Message, n int, spoil func(msg []byte)) {
	msg := c.Begin(m, 0, 16+n)
	b := msg[64:]
	clear(b)
	b[0], b[2] = 17, 80
	le.PutUint32(b[4:], uint32(n))
	spoil(msg)
	c.End(m, len(msg), script.AsAsked)
}

func lies() []lie {
	length := func(m *script.Message) int { return int(le.Uint32(m.Body[4:])) }
	field := func(name string, off int, v uint64, size int, want error) lie {
		return lie{name, func(c *script.Conn, m *script.Message) {
			readReply(c, m, length(m), func(msg []byte) {
				switch size {
				case 1:
					msg[off] = byte(v)
				case 2:
					le.PutUint16(msg[off:], uint16(v))
				case 4:
					le.PutUint32(msg[off:], uint32(v))
				case 8:
					le.PutUint64(msg[off:], v)
				}
			})
		}, want}
	}
	raw := func(name string, b []byte, want error) lie {
		return lie{name, func(c *script.Conn, m *script.Message) { c.Raw(b) }, want}
	}
	list := []lie{
		field("wrong structure size", 64, 16, 2, smb.ErrProtocol),
		field("wrong header size", 4, 65, 2, smb.ErrProtocol),
		field("data before the header's end", 66, 10, 1, smb.ErrProtocol),
		field("data beyond the message", 66, 255, 1, smb.ErrProtocol),
		field("data longer than the message", 68, 1<<31, 4, smb.ErrProtocol),
		field("data longer by one", 68, 1001, 4, smb.ErrProtocol),
		field("another message id", 24, 99999, 8, smb.ErrProtocol),
		field("another command", 12, uint64(proto.CommandWrite), 2, smb.ErrProtocol),
		field("another share", 36, 99, 4, smb.ErrProtocol),
		field("another session", 40, 99, 8, smb.ErrProtocol),
		field("a request", 16, 0, 4, smb.ErrProtocol),
		field("a chain beyond the frame", 20, 1<<30, 4, smb.ErrProtocol),
		field("a chain into the header", 20, 8, 4, smb.ErrProtocol),
		field("pending without an id", 8, uint64(proto.StatusPending), 4, smb.ErrProtocol),
		field("an unsolicited reply", 24, ^uint64(0), 8, smb.ErrProtocol),
		{"more data than asked for", func(c *script.Conn, m *script.Message) {
			readReply(c, m, length(m)+1000, func([]byte) {})
		}, smb.ErrProtocol},
		{"twice", func(c *script.Conn, m *script.Message) {
			readReply(c, m, 1, func([]byte) {})
			readReply(c, m, length(m), func([]byte) {})
		}, smb.ErrProtocol},
		{"a short body", func(c *script.Conn, m *script.Message) {
			c.Begin(m, 0, 16)
			c.End(m, 70, script.AsAsked)
		}, smb.ErrProtocol},
		{"hanging up", func(c *script.Conn, m *script.Message) { c.Close() }, smb.ErrConnLost},
		raw("an empty frame", []byte{0, 0, 0, 0}, smb.ErrProtocol),
		raw("a frame of one byte", []byte{0, 0, 0, 1, 'x'}, smb.ErrProtocol),
		raw("the longest frame there is", []byte{0, 0xff, 0xff, 0xff}, smb.ErrProtocol),
		{"the longest frame, begun like a reply", func(c *script.Conn, m *script.Message) {
			h := proto.Header{Command: m.Command, Status: proto.StatusAccessDenied, MessageID: m.MessageID, Flags: proto.FlagResponse, SessionID: script.Session, TreeID: script.Tree}
			c.Raw(append(h.Append([]byte{0, 0xff, 0xff, 0xff}), make([]byte, 100)...))
		}, smb.ErrProtocol},
		raw("the longest frame, begun like an encrypted one", append([]byte{0, 0xff, 0xff, 0xff, 0xfd, 'S', 'M', 'B'}, make([]byte, 150)...), smb.ErrProtocol),
		raw("a frame of another kind", []byte{0x85, 0, 0, 0}, smb.ErrProtocol),
		raw("rubbish", append([]byte{0, 0, 0, 100}, make([]byte, 100)...), smb.ErrProtocol),
		raw("SMB1", append([]byte{0, 0, 0, 100, 0xff, 'S', 'M', 'B'}, make([]byte, 96)...), smb.ErrProtocol),
		raw("compression", append([]byte{0, 0, 0, 100, 0xfc, 'S', 'M', 'B'}, make([]byte, 96)...), smb.ErrProtocol),
	}
	return list
}

// TestHostile sends every malformed reply in every kind of session: the call must end soon, with an error of
// its class, and with all memory back in the pool.
func TestHostile(t *testing.T) {
	for _, kind := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
		for _, l := range lies() {
			t.Run(kind+"/"+l.name, func(t *testing.T) {
				s := protections()[kind]
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					if m.Command != proto.CommandRead {
						return false
					}
					l.tell(c, m)
					return true
				}
				f, err := scripted(t, s, smb.Dialer{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err = f.WithContext(ctx).ReadAt(make([]byte, 1000), 0)
				if l.name == "twice" && err != nil && !errors.Is(err, l.want) {
					t.Fatal(err)
				}
				if l.name != "twice" && !errors.Is(err, l.want) && !errors.Is(err, smb.ErrSecurity) {
					t.Fatalf("got %v, want %v", err, l.want)
				}
				if _, err := f.ReadAt(make([]byte, 10), 0); err == nil {
					t.Error("the connection was used further")
				}
			})
		}
	}
}

// TestForbidden sends replies that are unencrypted, unsigned or wrongly signed although the session forbids
// it: they end the session (defect 1 of other clients).
func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		how        script.Security
		cmd        proto.Command
	}{
		{"clear READ in an encrypted session", "encrypted/GCM", script.InClear, proto.CommandRead},
		{"signed READ in an encrypted session", "encrypted/GCM", script.SignedReply, proto.CommandRead},
		{"clear WRITE in an encrypted session", "encrypted/GCM", script.InClear, proto.CommandWrite},
		{"unsigned READ in a signed session", "signed/GMAC", script.InClear, proto.CommandRead},
		{"unsigned WRITE in a signed session", "signed/CMAC", script.InClear, proto.CommandWrite},
		{"unsigned READ in a 2.1 session", "signed/HMAC", script.InClear, proto.CommandRead},
		{"unsigned end of SESSION_SETUP", "signed/GMAC", script.InClear, proto.CommandSessionSetup},
		{"unsigned TREE_CONNECT of 3.1.1", "plain", script.InClear, proto.CommandTreeConnect},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := protections()[c.kind]
			s.Override = func(cmd proto.Command) (script.Security, bool) { return c.how, cmd == c.cmd }
			f, err := scripted(t, s, smb.Dialer{})
			if err == nil && c.cmd == proto.CommandRead {
				p := make([]byte, 1000)
				_, err = f.ReadAt(p, 0)
				for _, b := range p {
					if b != 0 {
						t.Fatal("the refused data was placed")
					}
				}
			} else if err == nil {
				_, err = f.WriteAt(make([]byte, 1000), 0)
			}
			if !errors.Is(err, smb.ErrSecurity) {
				t.Fatalf("got %v", err)
			}
			if f != nil {
				if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, smb.ErrSecurity) {
					t.Errorf("the session continued: %v", err)
				}
			}
		})
	}
}

// TestTampered flips one bit of each reply in turn: every change is detected.
func TestTampered(t *testing.T) {
	for _, kind := range []string{"signed/GMAC", "signed/CMAC", "signed/HMAC", "encrypted/GCM", "encrypted/CCM"} {
		for _, at := range []int{4, 12, 30, 40, 55, 60, 90, 100, 500, 1000} {
			s := protections()[kind]
			reads := false
			s.Hook = func(c *script.Conn, m *script.Message) bool { reads = m.Command == proto.CommandRead; return false }
			s.Mangle = func(frame []byte) []byte {
				if reads && at < len(frame) {
					frame[at] ^= 4
				}
				return frame
			}
			f, err := scripted(t, s, smb.Dialer{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			n, err := f.WithContext(ctx).ReadAt(make([]byte, 1000), 0)
			cancel()
			if err == nil || n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s, byte %d: %d, %v", kind, at, n, err)
			}
		}
	}
}

// TestUnprotectable requires security that a server does not have.
func TestUnprotectable(t *testing.T) {
	for name, c := range map[string]struct {
		s *script.Server
		d smb.Dialer
	}{
		"guest, signing required":       {&script.Server{Guest: true}, smb.Dialer{RequireSigning: true}},
		"guest, encryption required":    {&script.Server{Guest: true, Cipher: 2}, smb.Dialer{RequireEncryption: true}},
		"no cipher":                     {&script.Server{}, smb.Dialer{RequireEncryption: true}},
		"2.1 cannot encrypt":            {&script.Server{Dialect: proto.Dialect210}, smb.Dialer{RequireEncryption: true}},
		"dialect that was not offered":  {&script.Server{Dialect: proto.Dialect210}, smb.Dialer{MinDialect: smb.SMB300}},
		"cipher that was not offered":   {&script.Server{Cipher: 1}, smb.Dialer{Ciphers: []smb.Cipher{smb.AES256GCM}}},
		"signer that was not offered":   {&script.Server{Signing: 1}, smb.Dialer{Signers: []smb.Signer{smb.GMAC}}},
		"encrypted without a cipher":    {&script.Server{Sealed: true}, smb.Dialer{}},
		"no preauthentication, no less": {&script.Server{Dialect: proto.DialectWildcard}, smb.Dialer{}},
	} {
		if _, err := scripted(t, c.s, c.d); !errors.Is(err, smb.ErrSecurity) && !errors.Is(err, smb.ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
