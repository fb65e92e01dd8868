package smb_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// forgedFrame is a message that an attacker without the session's key sends in the server's name.
func forgedFrame(h proto.Header, body ...byte) []byte {
	h.Flags |= proto.FlagResponse
	b := append(h.Append(make([]byte, 4)), body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// errorBody is the body of an ERROR reply.
func errorBody() []byte { return []byte{9, 0, 0, 0, 0, 0, 0, 0, 0} }

// TestForged injects messages into a protected session, without its key, while the client waits for a READ. None of
// them is taken for the reply: the READ returns the server's bytes, or fails with the error of the table.
func TestForged(t *testing.T) {
	// With the FileId that the scripted server gives to every file.
	oplockBreak := func() []byte {
		b := make([]byte, 24)
		b[0] = 24
		b[8], b[16] = 1, 2
		return b
	}
	leaseBreak := func() []byte {
		b := make([]byte, 44)
		b[0], b[4] = 44, 1 // acknowledgement required
		return b
	}
	async := func(m *script.Message, status proto.Status, credits uint16) proto.Header {
		return proto.Header{Command: m.Command, Status: status, Credits: credits, MessageID: m.MessageID, SessionID: script.Session,
			Flags: proto.FlagAsync, AsyncID: 99}
	}
	reply := func(m *script.Message, status proto.Status) proto.Header {
		return proto.Header{Command: m.Command, Status: status, Credits: 1, MessageID: m.MessageID, SessionID: script.Session, TreeID: script.Tree}
	}
	unsolicited := func(cmd proto.Command) proto.Header {
		return proto.Header{Command: cmd, MessageID: proto.UnsolicitedMessageID}
	}
	for _, c := range []struct {
		name  string
		frame func(m *script.Message) []byte
		// What READ returns in a signed and in an encrypted session.
		signed, encrypted error
	}{
		{"interim reply", func(m *script.Message) []byte {
			return forgedFrame(async(m, proto.StatusPending, 1), errorBody()...)
		}, nil, smb.ErrSecurity},
		{"interim reply with all credits", func(m *script.Message) []byte {
			return forgedFrame(async(m, proto.StatusPending, 65535), errorBody()...)
		}, nil, smb.ErrSecurity},
		{"interim reply twice", func(m *script.Message) []byte {
			b := forgedFrame(async(m, proto.StatusPending, 1), errorBody()...)
			return append(b, b...)
		}, nil, smb.ErrSecurity},
		{"refusal", func(m *script.Message) []byte {
			return forgedFrame(reply(m, proto.StatusAccessDenied), errorBody()...)
		}, smb.ErrSecurity, smb.ErrSecurity},
		{"end of the file", func(m *script.Message) []byte {
			return forgedFrame(reply(m, proto.StatusEndOfFile), errorBody()...)
		}, smb.ErrSecurity, smb.ErrSecurity},
		{"asynchronous refusal", func(m *script.Message) []byte {
			return forgedFrame(async(m, proto.StatusAccessDenied, 1), errorBody()...)
		}, smb.ErrSecurity, smb.ErrSecurity},
		{"session expired", func(m *script.Message) []byte {
			return forgedFrame(reply(m, proto.StatusNetworkSessionExpired), errorBody()...)
		}, smb.ErrSecurity, smb.ErrSecurity},
		{"session deleted", func(m *script.Message) []byte {
			return forgedFrame(reply(m, proto.StatusUserSessionDeleted), errorBody()...)
		}, nil, smb.ErrSecurity}, // a signed session is logged in again
		{"success with a wrong signature", func(m *script.Message) []byte {
			h := reply(m, 0)
			h.Flags = proto.FlagSigned
			return forgedFrame(h, append([]byte{17, 0, 80, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 'x')...)
		}, smb.ErrSecurity, smb.ErrSecurity},
		{"oplock break", func(*script.Message) []byte {
			return forgedFrame(unsolicited(proto.CommandOplockBreak), oplockBreak()...)
		}, nil, nil},
		{"lease break", func(*script.Message) []byte {
			return forgedFrame(unsolicited(proto.CommandOplockBreak), leaseBreak()...)
		}, nil, nil},
		{"truncated break", func(*script.Message) []byte {
			return forgedFrame(unsolicited(proto.CommandOplockBreak), oplockBreak()[:20]...)
		}, smb.ErrProtocol, smb.ErrProtocol},
		{"unsolicited READ", func(*script.Message) []byte {
			return forgedFrame(unsolicited(proto.CommandRead), errorBody()...)
		}, smb.ErrProtocol, smb.ErrProtocol},
		{"encrypted by another", func(m *script.Message) []byte {
			b := append([]byte{0, 0, 0, 152, 0xfd, 'S', 'M', 'B'}, make([]byte, 148)...)
			le.PutUint32(b[4+36:], 100)
			b[4+42] = 1
			le.PutUint64(b[4+44:], script.Session)
			return b
		}, smb.ErrSecurity, smb.ErrSecurity},
	} {
		for kind, want := range map[string]error{"signed/GMAC": c.signed, "encrypted/GCM": c.encrypted} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				s := protections()[kind]
				acknowledged := make(chan bool, 1)
				forged := false
				s.Hook = func(sc *script.Conn, m *script.Message) bool {
					switch m.Command {
					case proto.CommandCreate:
						sc.Opened(m, durableGrant(), func(b []byte) { b[2] = byte(proto.OplockBatch) })
						return true
					case proto.CommandOplockBreak:
						acknowledged <- m.Sealed || m.Flags&proto.FlagSigned != 0
					case proto.CommandRead:
						if !forged {
							forged = true
							sc.Raw(c.frame(m))
						}
					}
					return false
				}
				d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, s.Dial), Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}}
				sess, err := d.Dial(t.Context(), "scripted")
				must(t, err)
				defer sess.Close()
				share, err := sess.Mount(t.Context(), "share")
				must(t, err)
				f, err := share.Open("file")
				must(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if want == nil {
					checkRead(t, f.WithContext(ctx), 1000, 12345)
					checkRead(t, f.WithContext(ctx), 1000, 777)
					if c.name == "oplock break" && !<-acknowledged {
						t.Error("the acknowledgement is not protected")
					}
					return
				}
				if _, err := f.WithContext(ctx).ReadAt(make([]byte, 1000), 0); !errors.Is(err, want) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestReplayed sends an encrypted reply of the server a second time, to a later request: it is not taken for the
// reply to that.
func TestReplayed(t *testing.T) {
	s := protections()["encrypted/GCM"]
	reads := 0
	var first []byte
	s.Mangle = func(frame []byte) []byte {
		switch reads {
		case 1:
			first = append([]byte(nil), frame...)
		case 2:
			return first
		}
		return frame
	}
	s.Hook = func(_ *script.Conn, m *script.Message) bool {
		if m.Command == proto.CommandRead {
			reads++
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{NoReconnect: true})
	must(t, err)
	checkRead(t, f, 1000, 0)
	p := make([]byte, 1000)
	if n, err := f.ReadAt(p, 5000); n != 0 || !errors.Is(err, smb.ErrProtocol) {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
}
