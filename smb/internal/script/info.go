package script

import "github.com/tarn-go/tarn/smb/internal/proto"

// filetime is the value of every time of the file.
const filetime = 133_000_000_000_000_000

// queryInfo answers m, a QUERY_INFO, with the structures that Stat requests. Other classes are refused.
func (c *Conn) queryInfo(m *Message) error {
	const file = 1 // MS-SMB2 2.2.37, InfoType
	var info [104]byte
	n, size := 0, uint64(c.size())
	times := func() {
		for i := range 4 {
			le.PutUint64(info[8*i:], filetime)
		}
	}
	if m.Body[2] == file {
		switch proto.InfoClass(m.Body[3]) {
		case proto.ClassBasic:
			times()
			le.PutUint32(info[32:], uint32(proto.AttrNormal))
			n = 40
		case proto.ClassStandard:
			le.PutUint64(info[0:], size)
			le.PutUint64(info[8:], size)
			le.PutUint32(info[16:], 1)
			n = 24
		case proto.ClassNetworkOpen:
			times()
			le.PutUint64(info[32:], size)
			le.PutUint64(info[40:], size)
			le.PutUint32(info[48:], uint32(proto.AttrNormal))
			n = 56
		case proto.ClassAll:
			times()
			le.PutUint32(info[32:], uint32(proto.AttrNormal))
			le.PutUint64(info[40:], size)
			le.PutUint64(info[48:], size)
			le.PutUint32(info[56:], 1)
			n = 104
		}
	}
	if n == 0 {
		return c.Refuse(m, proto.StatusNotSupported)
	}
	msg := c.Begin(m, 0, 8+n)
	b := msg[proto.HeaderSize:]
	clear(b[:8])
	b[0], b[2] = 9, proto.HeaderSize+8
	le.PutUint32(b[4:], uint32(n))
	copy(b[8:], info[:n])
	return c.End(m, len(msg), AsAsked)
}
