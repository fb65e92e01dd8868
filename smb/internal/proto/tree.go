package proto

// TreeConnectRequest connects to a share (2.2.9).
type TreeConnectRequest struct {
	// Path is \\server\share; at most 65535 bytes as UTF-16.
	Path string
}

// Size is the number of bytes Append adds.
func (r *TreeConnectRequest) Size() int { return 8 + UTF16Len(r.Path) }

// Append appends the request's body behind its header.
func (r *TreeConnectRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 9)
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint16(dst, HeaderSize+8)
	dst = le.AppendUint16(dst, uint16(UTF16Len(r.Path)))
	return AppendUTF16(dst, r.Path)
}

// ShareType is the type of a share's resource (2.2.10).
type ShareType uint8

// Share types (2.2.10).
const (
	ShareDisk  ShareType = 1
	SharePipe  ShareType = 2
	SharePrint ShareType = 3
)

// ShareFlags are properties of a share (2.2.10).
type ShareFlags uint32

// Share flags that a client uses (2.2.10).
const (
	ShareFlagDFS          ShareFlags = 0x00000001
	ShareFlagDFSRoot      ShareFlags = 0x00000002
	ShareFlagEncryptData  ShareFlags = 0x00008000
	ShareFlagCompressData ShareFlags = 0x00100000
)

// ShareCapabilities are capabilities of a share (2.2.10).
type ShareCapabilities uint32

// Share capabilities that a client uses (2.2.10).
const (
	ShareCapDFS                    ShareCapabilities = 0x08
	ShareCapContinuousAvailability ShareCapabilities = 0x10
	ShareCapScaleOut               ShareCapabilities = 0x20
	ShareCapCluster                ShareCapabilities = 0x40
)

// TreeConnectResponse describes the share connected (2.2.10); its tree id is in the header.
type TreeConnectResponse struct {
	Type          ShareType
	Flags         ShareFlags
	Capabilities  ShareCapabilities
	MaximalAccess Access
}

// DecodeTreeConnectResponse reads a TREE_CONNECT response.
func DecodeTreeConnectResponse(msg []byte) (TreeConnectResponse, error) {
	b, err := body(msg, "TREE_CONNECT response", 16, 16)
	if err != nil {
		return TreeConnectResponse{}, err
	}
	return TreeConnectResponse{
		Type:          ShareType(b[2]),
		Flags:         ShareFlags(le.Uint32(b[4:])),
		Capabilities:  ShareCapabilities(le.Uint32(b[8:])),
		MaximalAccess: Access(le.Uint32(b[12:])),
	}, nil
}
