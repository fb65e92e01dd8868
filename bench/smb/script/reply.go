package script

import (
	"encoding/binary"

	"github.com/tarn-go/tarn/smb/internal/proto"
)

var le = binary.LittleEndian

// fileSize is the length in bytes of the one file.
const fileSize = 1 << 40

// reply appends the answer to one request.
func (s *server) reply(dst []byte, req *proto.Header, msg []byte) ([]byte, error) {
	start := len(dst)
	h := proto.Header{
		CreditCharge: req.CreditCharge,
		Command:      req.Command,
		Credits:      min(max(req.Credits, req.CreditCharge, 1), 512),
		Flags:        proto.FlagResponse | req.Flags&proto.FlagRelated,
		MessageID:    req.MessageID,
		TreeID:       1,
		SessionID:    req.SessionID,
	}
	dst = h.Append(dst)
	body := msg[proto.HeaderSize:]
	switch req.Command {
	case proto.CommandNegotiate:
		return s.negotiate(dst, start, msg)
	case proto.CommandSessionSetup:
		return s.sessionSetup(dst, start, msg)
	case proto.CommandTreeConnect:
		dst = append(dst, 16, 0, 1, 0)
		dst = append(dst, zeros(8)...)
		return le.AppendUint32(dst, 0x001f01ff), nil
	case proto.CommandCreate:
		return create(dst, body), nil
	case proto.CommandClose:
		dst = append(dst, 60, 0, 0, 0)
		return append(dst, zeros(56)...), nil
	case proto.CommandRead:
		return s.read(dst, body), nil
	case proto.CommandWrite:
		dst = append(dst, 17, 0, 0, 0)
		dst = le.AppendUint32(dst, le.Uint32(body[4:]))
		return append(dst, zeros(8)...), nil
	case proto.CommandQueryInfo:
		return queryInfo(dst, body), nil
	case proto.CommandSetInfo:
		return append(dst, 2, 0), nil
	case proto.CommandEcho, proto.CommandLogoff, proto.CommandTreeDisconnect, proto.CommandFlush:
		return proto.AppendSimple(dst), nil
	}
	le.PutUint32(dst[start+proto.OffsetStatus:], uint32(proto.StatusNotSupported))
	dst = append(dst, 9, 0)
	return append(dst, zeros(7)...), nil
}

// nothing is what zeros gives parts of.
const nothing = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func zeros(n int) string { return nothing[:n] }

// read leaves room for the data: what stands there travels.
func (s *server) read(dst, body []byte) []byte {
	n := min(int(le.Uint32(body[4:])), MaxIO)
	dst = append(dst, 17, 0, proto.ReadResponsePrefix, 0)
	dst = le.AppendUint32(dst, uint32(n))
	dst = append(dst, zeros(8)...)
	return dst[:len(dst)+n]
}

// create opens the file; what has the option of a directory, or no name, is the root.
func create(dst, body []byte) []byte {
	attributes := proto.AttrArchive
	if proto.CreateOptions(le.Uint32(body[40:]))&proto.OptionDirectory != 0 || le.Uint16(body[46:]) == 0 {
		attributes = proto.AttrDirectory
	}
	dst = append(dst, 89, 0, 0, 0)
	dst = le.AppendUint32(dst, uint32(proto.ActionOpened))
	for range 4 {
		dst = le.AppendUint64(dst, 133_000_000_000_000_000)
	}
	dst = le.AppendUint64(dst, fileSize)
	dst = le.AppendUint64(dst, fileSize)
	dst = le.AppendUint32(dst, uint32(attributes))
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, 1)
	dst = le.AppendUint64(dst, 1)
	return le.AppendUint64(dst, 0)
}

// queryInfo answers with the structures that a stat asks for.
func queryInfo(dst, body []byte) []byte {
	dst = le.AppendUint16(dst, 9)
	dst = le.AppendUint16(dst, proto.HeaderSize+8)
	at := len(dst)
	dst = le.AppendUint32(dst, 0)
	info := len(dst)
	for range 4 {
		dst = le.AppendUint64(dst, 133_000_000_000_000_000)
	}
	switch proto.InfoClass(body[3]) {
	case proto.ClassNetworkOpen:
		dst = le.AppendUint64(dst, fileSize)
		dst = le.AppendUint64(dst, fileSize)
		dst = le.AppendUint64(dst, uint64(proto.AttrArchive))
	case proto.ClassStandard:
		dst = le.AppendUint64(le.AppendUint64(dst[:info], fileSize), fileSize)
		dst = le.AppendUint64(dst, 1)
	case proto.ClassBasic:
		dst = le.AppendUint64(dst, uint64(proto.AttrArchive))
	default: // FileAllInformation, and what has no more than zeros in it
		dst = le.AppendUint64(dst, uint64(proto.AttrArchive))
		dst = le.AppendUint64(le.AppendUint64(dst, fileSize), fileSize)
		dst = le.AppendUint64(dst, 1)
		dst = append(dst, zeros(40)...)
	}
	le.PutUint32(dst[at:], uint32(len(dst)-info))
	return dst
}
