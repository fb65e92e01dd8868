package smb2

import smb2 "github.com/tarn-go/tarn/smb/gosmb2"

// Types of the other package, under the same names.
type (
	// ContextError is the end of a call's context.
	ContextError = smb2.ContextError
	// Encoder is a value that encodes itself into a request.
	Encoder = smb2.Encoder
	// FileFsInfo is the size and free space of a share's file system.
	FileFsInfo = smb2.FileFsInfo
	// FileStat describes a file, as reported by the server.
	FileStat = smb2.FileStat
	// Initiator is the client's side of an authentication.
	Initiator = smb2.Initiator
	// InternalError is returned for an incorrect use of the API.
	InternalError = smb2.InternalError
	// InvalidResponseError is returned when the server breaks the protocol.
	InvalidResponseError = smb2.InvalidResponseError
	// MapChars says how reserved characters are encoded in names.
	MapChars = smb2.MapChars
	// MountOption changes how a share is mounted.
	MountOption = smb2.MountOption
	// NTLMInitiator logs in with NTLMv2.
	NTLMInitiator = smb2.NTLMInitiator
	// Negotiator holds the settings that are negotiated with the server.
	Negotiator = smb2.Negotiator
	// RemoteFileStat is the old name of FileStat.
	RemoteFileStat = smb2.RemoteFileStat
	// ResponseError is a status with which the server refused a request.
	ResponseError = smb2.ResponseError
	// SecurityInformationRequestFlags is a set of parts of a security descriptor.
	SecurityInformationRequestFlags = smb2.SecurityInformationRequestFlags
	// ShareInfo is one share in a server's list.
	ShareInfo = smb2.ShareInfo
	// ShareType is the type of a share's resource.
	ShareType = smb2.ShareType
	// TransportError is returned when the connection was lost or could not be made.
	TransportError = smb2.TransportError

	// Client is the old name of Session.
	Client = Session
	// RemoteFileSystem is the old name of Share.
	RemoteFileSystem = Share
	// RemoteFile is the old name of File.
	RemoteFile = File
)

// Constants of the other package.
const (
	AES_AUTH_TAG_LEN = smb2.AES_AUTH_TAG_LEN
	MaxReadSizeLimit = smb2.MaxReadSizeLimit
	PathSeparator    = smb2.PathSeparator

	MapCharsNone = smb2.MapCharsNone
	MapCharsSFM  = smb2.MapCharsSFM
	MapCharsSFU  = smb2.MapCharsSFU

	OwnerSecurityInformation = smb2.OwnerSecurityInformation
	GroupSecurityInformation = smb2.GroupSecurityInformation
	DACLSecurityInformation  = smb2.DACLSecurityInformation
	SACLSecurityInformation  = smb2.SACLSecurityInformation

	ShareTypeDiskTree   = smb2.ShareTypeDiskTree
	ShareTypePrintQueue = smb2.ShareTypePrintQueue
	ShareTypeDevice     = smb2.ShareTypeDevice
	ShareTypeIPC        = smb2.ShareTypeIPC
)

// Errors of the other package.
var (
	ErrBadPattern         = smb2.ErrBadPattern
	ErrRequestNotAccepted = smb2.ErrRequestNotAccepted
)

// IsPathSeparator reports whether c is a backslash.
func IsPathSeparator(c uint8) bool { return smb2.IsPathSeparator(c) }

// Match reports whether name matches pattern.
func Match(pattern, name string) (matched bool, err error) { return smb2.Match(pattern, name) }

// WithMapChars encodes reserved characters in names as mount.cifs's "mapchars" does.
func WithMapChars() MountOption { return smb2.WithMapChars() }

// WithMapPosix encodes reserved characters in names as mount.cifs's "mapposix" does.
func WithMapPosix() MountOption { return smb2.WithMapPosix() }
