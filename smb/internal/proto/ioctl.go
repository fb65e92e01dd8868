package proto

// Control codes (2.2.31; MS-FSCC 2.3).
const (
	FsctlDFSGetReferrals      uint32 = 0x00060194
	FsctlPipePeek             uint32 = 0x0011400c
	FsctlPipeWait             uint32 = 0x00110018
	FsctlPipeTransceive       uint32 = 0x0011c017
	FsctlCopyChunk            uint32 = 0x001440f2
	FsctlCopyChunkWrite       uint32 = 0x001480f2
	FsctlRequestResumeKey     uint32 = 0x00140078
	FsctlQueryNetworkInfo     uint32 = 0x001401fc
	FsctlValidateNegotiate    uint32 = 0x00140204
	FsctlSetReparsePoint      uint32 = 0x000900a4
	FsctlGetReparsePoint      uint32 = 0x000900a8
	FsctlDeleteReparsePoint   uint32 = 0x000900ac
	FsctlSetSparse            uint32 = 0x000900c4
	FsctlSetZeroData          uint32 = 0x000980c8
	FsctlQueryAllocatedRanges uint32 = 0x000940cf
	FsctlEnumerateSnapshots   uint32 = 0x00144064
)

const ioctlFixed = 56

// IoctlRequest is a control code with its input (2.2.31). The codes above are all
// file system control codes, and are sent as such.
type IoctlRequest struct {
	Code   uint32
	FileID FileID // NoFileID for a code that concerns no file
	Input  []byte // borrowed for the call
	Output uint32 // bytes the answer may have
}

// NoFileID is the id in an IOCTL that concerns no file (2.2.31).
func NoFileID() FileID { return RelatedFileID() }

// Size is the number of bytes Append adds.
func (r *IoctlRequest) Size() int { return ioctlFixed + len(r.Input) }

// Append appends the request's body behind its header.
func (r *IoctlRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 57)
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint32(dst, r.Code)
	dst = r.FileID.append(dst)
	if len(r.Input) > 0 {
		dst = le.AppendUint32(dst, HeaderSize+ioctlFixed)
	} else {
		dst = le.AppendUint32(dst, 0)
	}
	dst = le.AppendUint32(dst, uint32(len(r.Input)))
	dst = le.AppendUint32(dst, 0) // MaxInputResponse
	dst = le.AppendUint32(dst, 0) // OutputOffset
	dst = le.AppendUint32(dst, 0) // OutputCount
	dst = le.AppendUint32(dst, r.Output)
	dst = le.AppendUint32(dst, 1) // it is a file system control code
	dst = le.AppendUint32(dst, 0)
	return append(dst, r.Input...)
}

// IoctlResponse is the output of a control code (2.2.32).
type IoctlResponse struct {
	Code   uint32
	FileID FileID
	Output []byte // aliases the message
}

// DecodeIoctlResponse reads an IOCTL response. The response of a COPYCHUNK that failed with
// [StatusInvalidParameter] and holds the server's limits has this form, too.
func DecodeIoctlResponse(msg []byte) (IoctlResponse, error) {
	const name = "IOCTL response"
	b, err := body(msg, name, 49, 48)
	if err != nil {
		return IoctlResponse{}, err
	}
	out, ok := variable(msg, le.Uint32(b[32:]), le.Uint32(b[36:]), HeaderSize+48)
	if !ok {
		return IoctlResponse{}, malformed(name, reasonBounds)
	}
	return IoctlResponse{Code: le.Uint32(b[4:]), FileID: decodeFileID(b[8:]), Output: out}, nil
}

// ValidateNegotiate is the input of FSCTL_VALIDATE_NEGOTIATE_INFO: the NEGOTIATE request, repeated with a
// signature (2.2.31.4).
type ValidateNegotiate struct {
	Capabilities Capabilities
	GUID         [16]byte
	SecurityMode SecurityMode
	Dialects     []Dialect
}

// Append appends the input.
func (v *ValidateNegotiate) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, uint32(v.Capabilities))
	dst = append(dst, v.GUID[:]...)
	dst = le.AppendUint16(dst, uint16(v.SecurityMode))
	dst = le.AppendUint16(dst, uint16(len(v.Dialects)))
	for _, d := range v.Dialects {
		dst = le.AppendUint16(dst, uint16(d))
	}
	return dst
}

// ValidatedNegotiate is the server's repeated answer to NEGOTIATE (2.2.32.6).
type ValidatedNegotiate struct {
	Capabilities Capabilities
	GUID         [16]byte
	SecurityMode SecurityMode
	Dialect      Dialect
}

// DecodeValidatedNegotiate reads the output of FSCTL_VALIDATE_NEGOTIATE_INFO.
func DecodeValidatedNegotiate(b []byte) (ValidatedNegotiate, error) {
	if len(b) != 24 {
		return ValidatedNegotiate{}, malformed("VALIDATE_NEGOTIATE_INFO", "not of 24 bytes")
	}
	return ValidatedNegotiate{
		Capabilities: Capabilities(le.Uint32(b)),
		GUID:         [16]byte(b[4:20]),
		SecurityMode: SecurityMode(le.Uint16(b[20:])),
		Dialect:      Dialect(le.Uint16(b[22:])),
	}, nil
}
