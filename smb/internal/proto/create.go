package proto

// createFixed is the length of the fixed part of a CREATE request's body (2.2.13).
const createFixed = 56

// CreateRequest opens or creates a file, a directory or a pipe (2.2.13).
type CreateRequest struct {
	Oplock      OplockLevel
	Access      Access
	Attributes  Attributes
	Share       ShareAccess
	Disposition Disposition
	Options     CreateOptions
	// Name is relative to the share, with backslashes and none in front; "" is the
	// share's root. At most 65535 bytes as UTF-16. With Contexts.POSIX slashes are sent in place of backslashes.
	Name string
	// Contexts are the create contexts; the zero value has none.
	Contexts CreateContexts
}

// Size is the number of bytes Append adds.
func (r *CreateRequest) Size() int {
	n := createFixed + UTF16Len(r.Name)
	if c := r.Contexts.size(); c > 0 {
		return align8(n) + c
	}
	return max(n, createFixed+1)
}

// Append appends the request's body behind its header.
func (r *CreateRequest) Append(dst []byte) []byte {
	base := len(dst)
	nameLen := UTF16Len(r.Name)
	contexts := r.Contexts.size()
	dst = le.AppendUint16(dst, 57)
	dst = append(dst, 0, uint8(r.Oplock))
	dst = le.AppendUint32(dst, ImpersonationImpersonation)
	dst = le.AppendUint64(dst, 0)
	dst = le.AppendUint64(dst, 0)
	dst = le.AppendUint32(dst, uint32(r.Access))
	dst = le.AppendUint32(dst, uint32(r.Attributes))
	dst = le.AppendUint32(dst, uint32(r.Share))
	dst = le.AppendUint32(dst, uint32(r.Disposition))
	dst = le.AppendUint32(dst, uint32(r.Options))
	dst = le.AppendUint16(dst, HeaderSize+createFixed)
	dst = le.AppendUint16(dst, uint16(nameLen))
	if contexts > 0 {
		dst = le.AppendUint32(dst, uint32(HeaderSize+align8(createFixed+nameLen)))
		dst = le.AppendUint32(dst, uint32(contexts))
	} else {
		dst = le.AppendUint64(dst, 0)
	}
	if r.Contexts.POSIX {
		dst = AppendUTF16(dst, posixPath(r.Name))
	} else {
		dst = AppendUTF16(dst, r.Name)
	}
	if contexts > 0 {
		return r.Contexts.append(pad(dst, base))
	}
	if nameLen == 0 {
		dst = append(dst, 0) // the variable part has at least one byte
	}
	return dst
}

// FileTimes are a file's four times, in the protocol's order (MS-FSCC 2.4.7).
type FileTimes struct {
	Creation, LastAccess, LastWrite, Change Filetime
}

func decodeFileTimes(b []byte) FileTimes {
	return FileTimes{
		Filetime(le.Uint64(b)), Filetime(le.Uint64(b[8:])),
		Filetime(le.Uint64(b[16:])), Filetime(le.Uint64(b[24:])),
	}
}

func (t *FileTimes) append(dst []byte) []byte {
	dst = le.AppendUint64(dst, uint64(t.Creation))
	dst = le.AppendUint64(dst, uint64(t.LastAccess))
	dst = le.AppendUint64(dst, uint64(t.LastWrite))
	return le.AppendUint64(dst, uint64(t.Change))
}

// CreateAction is what CREATE did (2.2.14).
type CreateAction uint32

// Create actions (2.2.14).
const (
	ActionSuperseded  CreateAction = 0
	ActionOpened      CreateAction = 1
	ActionCreated     CreateAction = 2
	ActionOverwritten CreateAction = 3
)

// CreateResponse describes the file opened (2.2.14).
type CreateResponse struct {
	Oplock     OplockLevel
	Action     CreateAction
	Times      FileTimes
	Allocation uint64 // bytes
	EndOfFile  uint64 // bytes
	Attributes Attributes
	FileID     FileID
	// Contexts are the create contexts that the server granted.
	Contexts CreateGrants
}

// DecodeCreateResponse reads a CREATE response.
func DecodeCreateResponse(msg []byte) (CreateResponse, error) {
	const name = "CREATE response"
	b, err := body(msg, name, 89, 88)
	if err != nil {
		return CreateResponse{}, err
	}
	r := CreateResponse{
		Oplock:     OplockLevel(b[2]),
		Action:     CreateAction(le.Uint32(b[4:])),
		Times:      decodeFileTimes(b[8:]),
		Allocation: le.Uint64(b[40:]),
		EndOfFile:  le.Uint64(b[48:]),
		Attributes: Attributes(le.Uint32(b[56:])),
		FileID:     decodeFileID(b[64:]),
	}
	if !isSize(r.EndOfFile) {
		return CreateResponse{}, malformed(name, reasonLength)
	}
	list, ok := variable(msg, le.Uint32(b[80:]), le.Uint32(b[84:]), HeaderSize+88)
	if !ok {
		return CreateResponse{}, malformed(name, reasonBounds)
	}
	if r.Contexts, err = decodeCreateGrants(list); err != nil {
		return CreateResponse{}, err
	}
	return r, nil
}
