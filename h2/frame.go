package h2

import "encoding/binary"

// Preface is what a client sends first (RFC 9113 section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

const frameHeaderLen = 9 // RFC 9113 section 4.1

type frameType uint8

const (
	frameData         frameType = 0x0
	frameHeaders      frameType = 0x1
	framePriority     frameType = 0x2
	frameReset        frameType = 0x3
	frameSettings     frameType = 0x4
	framePush         frameType = 0x5
	framePing         frameType = 0x6
	frameGoAway       frameType = 0x7
	frameWindow       frameType = 0x8
	frameContinuation frameType = 0x9

	framePriorityUpdate frameType = 0x10 // RFC 9218 section 7.1
)

type flags uint8

const (
	flagAck        flags = 0x1
	flagEndStream  flags = 0x1
	flagEndHeaders flags = 0x4
	flagPadded     flags = 0x8
	flagPriority   flags = 0x20
)

type frame struct {
	length int
	id     uint32
	typ    frameType
	flags  flags
}

func (f frame) has(x flags) bool { return f.flags&x != 0 }

func (f frame) ending() Ending {
	if f.has(flagEndStream) {
		return End
	}
	return More
}

// parseFrame reads a frame header; p holds frameHeaderLen bytes.
func parseFrame(p []byte) frame {
	_ = p[frameHeaderLen-1]
	return frame{
		length: int(p[0])<<16 | int(p[1])<<8 | int(p[2]),
		typ:    frameType(p[3]),
		flags:  flags(p[4]),
		id:     binary.BigEndian.Uint32(p[5:]) & (1<<31 - 1),
	}
}

// putFrame stores f as a frame header in p.
func putFrame(p []byte, f frame) {
	_ = p[frameHeaderLen-1]
	p[0], p[1], p[2] = byte(f.length>>16), byte(f.length>>8), byte(f.length)
	p[3], p[4] = byte(f.typ), byte(f.flags)
	binary.BigEndian.PutUint32(p[5:], f.id)
}

type settingID uint16

const (
	setHeaderTable settingID = 0x1
	setEnablePush  settingID = 0x2
	setMaxStreams  settingID = 0x3
	setWindow      settingID = 0x4
	setMaxFrame    settingID = 0x5
	setHeaderList  settingID = 0x6

	setExtendedConnect settingID = 0x8 // RFC 8441 section 3
	setNoPriorities    settingID = 0x9 // RFC 9218 section 2.1
)

const settingLen = 6

func putSetting(p []byte, id settingID, v uint32) {
	binary.BigEndian.PutUint16(p, uint16(id))
	binary.BigEndian.PutUint32(p[2:], v)
}

type side uint8

const (
	client side = iota
	server
)
