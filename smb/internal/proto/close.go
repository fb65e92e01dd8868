package proto

// ClosePostQuery asks a CLOSE to answer with the file's attributes (2.2.15).
const ClosePostQuery uint16 = 1

// CloseRequest closes a file (2.2.15).
type CloseRequest struct {
	Flags  uint16
	FileID FileID
}

// Size is the number of bytes Append adds.
func (r *CloseRequest) Size() int { return 24 }

// Append appends the request's body behind its header.
func (r *CloseRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 24)
	dst = le.AppendUint16(dst, r.Flags)
	dst = le.AppendUint32(dst, 0)
	return r.FileID.append(dst)
}

// CloseResponse holds the file's attributes when Flags has [ClosePostQuery] (2.2.16).
type CloseResponse struct {
	Flags      uint16
	Times      FileTimes
	Allocation uint64 // bytes
	EndOfFile  uint64 // bytes
	Attributes Attributes
}

// DecodeCloseResponse reads a CLOSE response.
func DecodeCloseResponse(msg []byte) (CloseResponse, error) {
	b, err := body(msg, "CLOSE response", 60, 60)
	if err != nil {
		return CloseResponse{}, err
	}
	if !isSize(le.Uint64(b[48:])) {
		return CloseResponse{}, malformed("CLOSE response", reasonLength)
	}
	return CloseResponse{
		Flags:      le.Uint16(b[2:]),
		Times:      decodeFileTimes(b[8:]),
		Allocation: le.Uint64(b[40:]),
		EndOfFile:  le.Uint64(b[48:]),
		Attributes: Attributes(le.Uint32(b[56:])),
	}, nil
}
