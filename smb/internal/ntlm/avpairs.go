package ntlm

import "fmt"

// Attribute ids (MS-NLMP 2.2.2.1).
const (
	avEnd             = 0
	avFlags           = 6
	avTimestamp       = 7
	avTargetName      = 9
	avChannelBindings = 10
)

// avFlagMIC says that the AUTHENTICATE_MESSAGE has a MIC.
const avFlagMIC = 2

// eachAV calls f for each attribute before the end. What follows the end is ignored.
func eachAV(b []byte, f func(id uint16, value []byte)) error {
	for len(b) >= 4 {
		id, n := le.Uint16(b), int(le.Uint16(b[2:]))
		if id == avEnd {
			return nil
		}
		if 4+n > len(b) {
			break
		}
		f(id, b[4:4+n])
		b = b[4+n:]
	}
	if len(b) == 0 {
		return nil // Samba and Windows both end the list, but the end is not needed
	}
	return fmt.Errorf("%w: attributes run out of their list", ErrChallenge)
}

func appendAV(dst []byte, id uint16, value []byte) []byte {
	dst = le.AppendUint16(dst, id)
	dst = le.AppendUint16(dst, uint16(len(value)))
	return append(dst, value...)
}

// targetInfo is the server's attributes with ours added (MS-NLMP 3.1.5.1.2), and the server's clock if it
// sent one, which makes a MIC obligatory.
func (c *Context) targetInfo(server []byte) (info []byte, clock uint64, err error) {
	var flags uint32
	err = eachAV(server, func(id uint16, value []byte) {
		switch {
		case id == avFlags && len(value) == 4:
			flags = le.Uint32(value)
			return
		case id == avTargetName || id == avChannelBindings || id == avFlags:
			return // set by us
		case id == avTimestamp && len(value) == 8:
			clock = le.Uint64(value)
		}
		info = appendAV(info, id, value)
	})
	if err != nil {
		return nil, 0, err
	}
	if clock != 0 {
		flags |= avFlagMIC
	}
	if flags != 0 {
		info = appendAV(info, avFlags, le.AppendUint32(nil, flags))
	}
	if c.cfg.Target != "" {
		info = appendAV(info, avTargetName, utf16le(c.cfg.Target))
	}
	info = appendAV(info, avChannelBindings, make([]byte, 16))
	return appendAV(info, avEnd, nil), clock, nil
}
