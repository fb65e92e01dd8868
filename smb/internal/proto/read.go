package proto

// ReadUnbuffered asks the server to bypass its cache (2.2.19); 3.0.2 and later.
const ReadUnbuffered uint8 = 1

// ReadRequest reads from a file or pipe (2.2.19).
type ReadRequest struct {
	Flags   uint8
	Length  uint32 // bytes
	Offset  uint64 // bytes; ignored for a pipe
	FileID  FileID
	Minimum uint32 // fail rather than return fewer bytes
}

// ReadRequestSize is the length in bytes of a READ request's body.
const ReadRequestSize = 49

// Size is the number of bytes Append adds.
func (r *ReadRequest) Size() int { return ReadRequestSize }

// Append appends the request's body behind its header.
func (r *ReadRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 49)
	// Padding is the offset at which the server is asked to put the data: directly behind the fixed part, so
	// that a receiver knows how much to read before the data. The server may ignore it.
	dst = append(dst, HeaderSize+readFixed, r.Flags)
	dst = le.AppendUint32(dst, r.Length)
	dst = le.AppendUint64(dst, r.Offset)
	dst = r.FileID.append(dst)
	dst = le.AppendUint32(dst, r.Minimum)
	dst = le.AppendUint32(dst, 0) // Channel
	dst = le.AppendUint32(dst, 0) // RemainingBytes
	dst = le.AppendUint32(dst, 0) // ReadChannelInfo
	return append(dst, 0)
}

const readFixed = 16

// ReadResponsePrefix is how many bytes of a READ response, with its header, [DecodeReadPrefix] needs.
const ReadResponsePrefix = HeaderSize + readFixed

// ReadResponse holds the data read (2.2.20).
type ReadResponse struct {
	Data      []byte // aliases the message
	Remaining uint32 // bytes that remain in a pipe's message
}

// DecodeReadResponse reads a READ response. Data may be anywhere behind the fixed part.
func DecodeReadResponse(msg []byte) (ReadResponse, error) {
	p, err := DecodeReadPrefix(msg)
	if err != nil {
		return ReadResponse{}, err
	}
	data, ok := variable(msg, p.Offset, p.Length, ReadResponsePrefix)
	if !ok {
		return ReadResponse{}, malformed("READ response", reasonBounds)
	}
	return ReadResponse{Data: data, Remaining: p.Remaining}, nil
}

// ReadPrefix is the position of the data in a READ response that has not been received completely.
type ReadPrefix struct {
	Offset    uint32 // of the data, in bytes from the header; at least ReadResponsePrefix unless Length is 0
	Length    uint32 // of the data, in bytes; as the peer declares it
	Remaining uint32
}

// DecodeReadPrefix reads the first [ReadResponsePrefix] bytes of a READ response, so that its data can be
// received directly at its destination. The caller must check Offset and Length against the length of the
// frame and of its request: nothing else does.
func DecodeReadPrefix(msg []byte) (ReadPrefix, error) {
	const name = "READ response"
	b, err := body(msg, name, 17, readFixed)
	if err != nil {
		return ReadPrefix{}, err
	}
	p := ReadPrefix{Offset: uint32(b[2]), Length: le.Uint32(b[4:]), Remaining: le.Uint32(b[8:])}
	if p.Length > 0 && p.Offset < ReadResponsePrefix {
		return ReadPrefix{}, malformed(name, reasonBounds)
	}
	return p, nil
}
