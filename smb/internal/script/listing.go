package script

import "github.com/tarn-go/tarn/smb/internal/proto"

// Entry is a directory entry that a hook returns.
type Entry struct {
	Name       string
	Raw        []byte // UTF-16LE, in place of Name; nil: Name
	Attributes proto.Attributes
	Tag        uint32 // of a reparse point
	Size       uint64
	ID         uint64
}

// ClassOf is the class of entries that m, a QUERY_DIRECTORY, asks for.
func ClassOf(m *Message) proto.DirClass { return proto.DirClass(m.Body[2]) }

// Restarts reports whether m, a QUERY_DIRECTORY, asks for the first entries.
func Restarts(m *Message) bool { return m.Body[3]&byte(proto.QueryRestart) != 0 }

// List answers m, a QUERY_DIRECTORY, with entries of the class it asks for.
func (c *Conn) List(m *Message, entries ...Entry) error {
	b := []byte{9, 0, proto.HeaderSize + 8, 0, 0, 0, 0, 0}
	fixed := 104
	if ClassOf(m) == proto.FileDirectoryInformation {
		fixed = 64
	}
	for i, e := range entries {
		at := len(b)
		if e.Raw == nil {
			e.Raw = proto.AppendUTF16(nil, e.Name)
		}
		b = append(b, make([]byte, fixed)...)
		x := b[at:]
		le.PutUint64(x[40:], e.Size)
		le.PutUint32(x[56:], uint32(e.Attributes))
		le.PutUint32(x[60:], uint32(len(e.Raw)))
		if fixed == 104 {
			le.PutUint32(x[64:], e.Tag)
			le.PutUint64(x[96:], e.ID)
		}
		b = append(b, e.Raw...)
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		if i < len(entries)-1 {
			le.PutUint32(b[at:], uint32(len(b)-at))
		}
	}
	le.PutUint32(b[4:], uint32(len(b)-8))
	return c.Reply(m, 0, b, AsAsked)
}

// Opened answers m, a CREATE: spoil changes the body of a valid reply, and the encoded contexts follow it.
func (c *Conn) Opened(m *Message, contexts []byte, spoil func(body []byte)) error {
	b := make([]byte, 88, 88+len(contexts))
	b[0] = 89
	le.PutUint32(b[4:], uint32(actionOf(m)))
	le.PutUint64(b[48:], uint64(c.size()))
	le.PutUint32(b[56:], uint32(proto.AttrNormal))
	le.PutUint64(b[64:], 1)
	le.PutUint64(b[72:], 2)
	if len(contexts) > 0 {
		le.PutUint32(b[80:], proto.HeaderSize+88)
		le.PutUint32(b[84:], uint32(len(contexts)))
	}
	spoil(b)
	return c.Reply(m, 0, append(b, contexts...), AsAsked)
}

// NameOf is the name that m, a CREATE, opens.
func NameOf(m *Message) string {
	at, n := int(le.Uint16(m.Body[44:]))-proto.HeaderSize, int(le.Uint16(m.Body[46:]))
	if n == 0 {
		return ""
	}
	return proto.DecodeUTF16(m.Body[at : at+n])
}
