package proto

// InfoType is the object of a QUERY_INFO or SET_INFO (2.2.37, 2.2.39).
type InfoType uint8

// Info types (2.2.37).
const (
	InfoFile       InfoType = 1
	InfoFilesystem InfoType = 2
	InfoSecurity   InfoType = 3
)

// InfoClass is the class of the structure; its meaning depends on the InfoType.
type InfoClass uint8

// Classes of InfoFile (MS-FSCC 2.4) and of InfoFilesystem (MS-FSCC 2.5).
const (
	ClassBasic        InfoClass = 4
	ClassStandard     InfoClass = 5
	ClassInternal     InfoClass = 6
	ClassRename       InfoClass = 10
	ClassLink         InfoClass = 11
	ClassDisposition  InfoClass = 13
	ClassFullEA       InfoClass = 15
	ClassAll          InfoClass = 18
	ClassAllocation   InfoClass = 19
	ClassEndOfFile    InfoClass = 20
	ClassStream       InfoClass = 22
	ClassNetworkOpen  InfoClass = 34
	ClassAttributeTag InfoClass = 35
	ClassRenameEx     InfoClass = 65
	ClassPOSIX        InfoClass = 100 // of the POSIX extensions

	ClassFSVolume    InfoClass = 1
	ClassFSSize      InfoClass = 3
	ClassFSAttribute InfoClass = 5
	ClassFSFullSize  InfoClass = 7
)

// SecurityInformation is a set of parts of a security descriptor (2.2.37).
type SecurityInformation uint32

// Parts of a security descriptor (2.2.37).
const (
	OwnerSecurity SecurityInformation = 1
	GroupSecurity SecurityInformation = 2
	DACLSecurity  SecurityInformation = 4
	SACLSecurity  SecurityInformation = 8
)

// QueryInfoRequest queries a file, its file system or its security descriptor (2.2.37).
type QueryInfoRequest struct {
	Type   InfoType
	Class  InfoClass
	Output uint32 // bytes the answer may have
	// Security says which parts to return when Type is InfoSecurity; 0 otherwise.
	Security SecurityInformation
	FileID   FileID
}

// Size is the number of bytes Append adds.
func (r *QueryInfoRequest) Size() int { return 40 }

// Append appends the request's body behind its header.
func (r *QueryInfoRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 41)
	dst = append(dst, uint8(r.Type), uint8(r.Class))
	dst = le.AppendUint32(dst, r.Output)
	dst = le.AppendUint64(dst, 0) // no input
	dst = le.AppendUint32(dst, uint32(r.Security))
	dst = le.AppendUint32(dst, 0)
	return r.FileID.append(dst)
}

// DecodeQueryInfoResponse reads a QUERY_INFO response (2.2.38) and returns the structure
// in it, which aliases msg, for one of the Decode functions of its class.
func DecodeQueryInfoResponse(msg []byte) ([]byte, error) {
	return decodeOutput(msg, "QUERY_INFO response")
}

// SetInfoRequest changes attributes of a file (2.2.39). The reply has no data.
type SetInfoRequest struct {
	Type     InfoType
	Class    InfoClass
	Security SecurityInformation // as in QueryInfoRequest
	FileID   FileID
	// Info is the structure of the class, made by an Append function of it.
	Info []byte
}

// Size is the number of bytes Append adds.
func (r *SetInfoRequest) Size() int { return 32 + len(r.Info) }

// Append appends the request's body behind its header.
func (r *SetInfoRequest) Append(dst []byte) []byte {
	dst = le.AppendUint16(dst, 33)
	dst = append(dst, uint8(r.Type), uint8(r.Class))
	dst = le.AppendUint32(dst, uint32(len(r.Info)))
	dst = le.AppendUint16(dst, HeaderSize+32)
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint32(dst, uint32(r.Security))
	dst = r.FileID.append(dst)
	return append(dst, r.Info...)
}
