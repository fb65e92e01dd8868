package proto

// WriteFlags (2.2.21).
type WriteFlags uint32

// Write flags (2.2.21).
const (
	WriteThrough    WriteFlags = 1
	WriteUnbuffered WriteFlags = 2
)

// WriteRequestSize is the length in bytes of a WRITE request's body before the data, which follows it
// directly.
const WriteRequestSize = 48

// WriteRequest writes to a file or pipe (2.2.21). The caller sends the data directly behind the result of
// Append: it is not copied.
type WriteRequest struct {
	Length uint32 // of the data, bytes
	Offset uint64 // bytes; ignored for a pipe
	FileID FileID
	Flags  WriteFlags
}

// Size is the number of bytes Append adds.
func (r *WriteRequest) Size() int { return WriteRequestSize }

// Append appends the request's body, up to the data, behind its header.
func (r *WriteRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 49)
	dst = le.AppendUint16(dst, HeaderSize+WriteRequestSize)
	dst = le.AppendUint32(dst, r.Length)
	dst = le.AppendUint64(dst, r.Offset)
	dst = r.FileID.append(dst)
	dst = le.AppendUint32(dst, 0) // Channel
	dst = le.AppendUint32(dst, 0) // RemainingBytes
	dst = le.AppendUint32(dst, 0) // WriteChannelInfo
	return le.AppendUint32(dst, uint32(r.Flags))
}

// WriteResponse says how much was written (2.2.22).
type WriteResponse struct {
	Count uint32 // bytes; as the peer declares it, compare it with what was sent
}

// DecodeWriteResponse reads a WRITE response.
func DecodeWriteResponse(msg []byte) (WriteResponse, error) {
	b, err := body(msg, "WRITE response", 17, 16)
	if err != nil {
		return WriteResponse{}, err
	}
	return WriteResponse{Count: le.Uint32(b[4:])}, nil
}
