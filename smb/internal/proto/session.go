package proto

// SetupFlagBinding binds another channel to a session (2.2.5).
const SetupFlagBinding uint8 = 1

// SessionSetupRequest carries one token of the authentication (2.2.5).
type SessionSetupRequest struct {
	Flags             uint8
	SecurityMode      SecurityMode
	Capabilities      Capabilities
	PreviousSessionID uint64
	Token             []byte // at most 65535 bytes
}

// Size is the number of bytes Append adds.
func (r *SessionSetupRequest) Size() int { return 24 + len(r.Token) }

// Append appends the request's body behind its header.
func (r *SessionSetupRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 25)
	dst = append(dst, r.Flags, uint8(r.SecurityMode))
	dst = le.AppendUint32(dst, uint32(r.Capabilities))
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint16(dst, HeaderSize+24)
	dst = le.AppendUint16(dst, uint16(len(r.Token)))
	dst = le.AppendUint64(dst, r.PreviousSessionID)
	return append(dst, r.Token...)
}

// SessionFlags are properties of the session (2.2.6).
type SessionFlags uint16

// Session flags (2.2.6).
const (
	SessionGuest   SessionFlags = 1
	SessionNull    SessionFlags = 2
	SessionEncrypt SessionFlags = 4
)

// SessionSetupResponse is the server's next token (2.2.6).
type SessionSetupResponse struct {
	Flags SessionFlags
	Token []byte // aliases the message
}

// DecodeSessionSetupResponse reads a SESSION_SETUP response, of status
// [StatusSuccess] or [StatusMoreProcessingRequired].
func DecodeSessionSetupResponse(msg []byte) (SessionSetupResponse, error) {
	const name = "SESSION_SETUP response"
	b, err := body(msg, name, 9, 8)
	if err != nil {
		return SessionSetupResponse{}, err
	}
	r := SessionSetupResponse{Flags: SessionFlags(le.Uint16(b[2:]))}
	var ok bool
	r.Token, ok = variable(msg, uint32(le.Uint16(b[4:])), uint32(le.Uint16(b[6:])), HeaderSize+8)
	if !ok {
		return SessionSetupResponse{}, malformed(name, reasonBounds)
	}
	return r, nil
}
