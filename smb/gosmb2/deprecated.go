package smb2

// Names that go-smb2 keeps for older programs.
type (
	// Client is the old name of Session.
	Client = Session
	// RemoteFileSystem is the old name of Share.
	RemoteFileSystem = Share
	// RemoteFile is the old name of File.
	RemoteFile = File
	// RemoteFileStat is the old name of FileStat.
	RemoteFileStat = FileStat
)

// MaxReadSizeLimit has no effect.
const MaxReadSizeLimit = 0x100000

// AES_AUTH_TAG_LEN is the length in bytes of the tag of an encrypted message.
const AES_AUTH_TAG_LEN = 16
