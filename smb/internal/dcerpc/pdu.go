// Package dcerpc implements the part of DCE/RPC over a named pipe (C706, MS-RPCE) that listing a server's
// shares needs: a bind, one request, and an answer in any number of fragments.
package dcerpc

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var le = binary.LittleEndian

var (
	// ErrMalformed is matched when the server broke the protocol.
	ErrMalformed = errors.New("dcerpc: malformed answer from the server")
	// ErrRefused is matched when the server refused the bind or the call.
	ErrRefused = errors.New("dcerpc: refused by the server")
)

// Types of PDU (C706 12.6.4).
const (
	pduRequest  = 0
	pduResponse = 2
	pduFault    = 3
	pduBind     = 11
	pduBindAck  = 12
	pduBindNak  = 13
)

const (
	flagFirst = 1
	flagLast  = 2

	headerSize = 16
	// maxFragment is the longest fragment that we offer and accept, the same as Windows'.
	maxFragment = 4280
)

// Interfaces in wire format: srvsvc 3.0 (MS-SRVS 1.9) and NDR 2 (C706 14).
const (
	syntaxSrvsvc = "\xc8\x4f\x32\x4b\x70\x16\xd3\x01\x12\x78\x5a\x47\xbf\x6e\xe1\x88\x03\x00\x00\x00"
	syntaxNDR    = "\x04\x5d\x88\x8a\xeb\x1c\xc9\x11\x9f\xe8\x08\x00\x2b\x10\x48\x60\x02\x00\x00\x00"
)

// header is the common header; finish fills in the length.
func header(kind byte, call uint32) []byte {
	b := []byte{5, 0, kind, flagFirst | flagLast, 0x10, 0, 0, 0}
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, 0)
	return le.AppendUint32(b, call)
}

func finish(pdu []byte) []byte {
	le.PutUint16(pdu[8:], uint16(len(pdu)))
	return pdu
}

func encodeBind(call uint32) []byte {
	b := header(pduBind, call)
	b = le.AppendUint16(b, maxFragment)
	b = le.AppendUint16(b, maxFragment)
	b = le.AppendUint32(b, 0) // association group
	b = append(b, 1, 0, 0, 0) // one context
	b = append(b, 0, 0, 1, 0) // number 0, with one transfer syntax
	b = append(b, syntaxSrvsvc...)
	return finish(append(b, syntaxNDR...))
}

func encodeRequest(call uint32, operation uint16, stub []byte) []byte {
	b := header(pduRequest, call)
	b = le.AppendUint32(b, uint32(len(stub)))
	b = le.AppendUint16(b, 0) // context
	b = le.AppendUint16(b, operation)
	return finish(append(b, stub...))
}

// pdu is one fragment.
type pdu struct {
	kind, flags byte
	call        uint32
	body        []byte // behind the header
}

// cutPDU splits off the first fragment of b; n is 0 when it is not complete yet.
func cutPDU(b []byte) (p pdu, n int, err error) {
	if len(b) < headerSize {
		return pdu{}, 0, nil
	}
	n = int(le.Uint16(b[8:]))
	switch {
	case b[0] != 5 || b[1] > 1:
		return pdu{}, 0, fmt.Errorf("%w: not version 5", ErrMalformed)
	case b[4] != 0x10:
		return pdu{}, 0, fmt.Errorf("%w: not little-endian", ErrMalformed)
	case n < headerSize:
		return pdu{}, 0, fmt.Errorf("%w: fragment shorter than its header", ErrMalformed)
	case le.Uint16(b[10:]) != 0:
		return pdu{}, 0, fmt.Errorf("%w: unexpected authentication", ErrMalformed)
	case n > len(b):
		return pdu{}, 0, nil
	}
	return pdu{kind: b[2], flags: b[3], call: le.Uint32(b[12:]), body: b[headerSize:n]}, n, nil
}

// checkBind reports whether p accepts our one context (C706 12.6.4.4).
func checkBind(p pdu) error {
	if p.kind == pduBindNak {
		return fmt.Errorf("%w: bind", ErrRefused)
	}
	if p.kind != pduBindAck || len(p.body) < 10 {
		return fmt.Errorf("%w: no answer to the bind", ErrMalformed)
	}
	at := 10 + int(le.Uint16(p.body[8:])) // past the secondary address
	at = (at + 3) &^ 3                    // the header is a multiple of 4
	if at+8 > len(p.body) || p.body[at] == 0 {
		return fmt.Errorf("%w: bind acknowledged without results", ErrMalformed)
	}
	if result := le.Uint16(p.body[at+4:]); result != 0 {
		return fmt.Errorf("%w: bind, result %d reason %d", ErrRefused, result, le.Uint16(p.body[at+6:]))
	}
	return nil
}
