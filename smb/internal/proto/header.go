package proto

// HeaderSize is the length in bytes of the SMB2 header (2.2.1).
const HeaderSize = 64

// Offsets in bytes of header fields that are written or read separately (2.2.1).
const (
	OffsetCreditCharge = 6
	OffsetStatus       = 8
	OffsetCommand      = 12
	OffsetCredits      = 14
	OffsetFlags        = 16
	OffsetNextCommand  = 20
	OffsetMessageID    = 24
	OffsetTreeID       = 36
	OffsetSessionID    = 40
	OffsetSignature    = 48
	SignatureSize      = 16
)

// Protocol identifiers: the first four bytes of a message (2.2.1, 2.2.41, 2.2.42, 2.2.2 of MS-CIFS).
const (
	ProtocolSMB2        = uint32('S')<<8 | uint32('M')<<16 | uint32('B')<<24 | 0xfe
	ProtocolTransform   = uint32('S')<<8 | uint32('M')<<16 | uint32('B')<<24 | 0xfd
	ProtocolCompression = uint32('S')<<8 | uint32('M')<<16 | uint32('B')<<24 | 0xfc
	ProtocolSMB1        = uint32('S')<<8 | uint32('M')<<16 | uint32('B')<<24 | 0xff
)

// Protocol is the protocol identifier at the start of b, zero when b is shorter than it.
func Protocol(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return le.Uint32(b)
}

// Command is the kind of a message (2.2.1).
type Command uint16

// The commands of SMB 2 and 3 (2.2.1).
const (
	CommandNegotiate Command = iota
	CommandSessionSetup
	CommandLogoff
	CommandTreeConnect
	CommandTreeDisconnect
	CommandCreate
	CommandClose
	CommandFlush
	CommandRead
	CommandWrite
	CommandLock
	CommandIoctl
	CommandCancel
	CommandEcho
	CommandQueryDirectory
	CommandChangeNotify
	CommandQueryInfo
	CommandSetInfo
	CommandOplockBreak
)

var commandNames = [...]string{
	"NEGOTIATE", "SESSION_SETUP", "LOGOFF", "TREE_CONNECT", "TREE_DISCONNECT", "CREATE", "CLOSE",
	"FLUSH", "READ", "WRITE", "LOCK", "IOCTL", "CANCEL", "ECHO", "QUERY_DIRECTORY",
	"CHANGE_NOTIFY", "QUERY_INFO", "SET_INFO", "OPLOCK_BREAK",
}

// String is the command's name in MS-SMB2, without its prefix.
func (c Command) String() string {
	if int(c) < len(commandNames) {
		return commandNames[c]
	}
	return "command " + hex(uint32(c))
}

// Flags of a header (2.2.1).
type Flags uint32

// Header flags (2.2.1.2).
const (
	FlagResponse Flags = 0x00000001 // SERVER_TO_REDIR
	FlagAsync    Flags = 0x00000002
	FlagRelated  Flags = 0x00000004
	FlagSigned   Flags = 0x00000008
	FlagPriority Flags = 0x00000070
	FlagDFS      Flags = 0x10000000
	FlagReplay   Flags = 0x20000000
)

// UnsolicitedMessageID is the message id of an oplock or lease break, which answers no request (3.2.5.19).
const UnsolicitedMessageID = ^uint64(0)

// Header is the SMB2 header (2.2.1). The zero Header is a request of NEGOTIATE.
type Header struct {
	CreditCharge uint16
	// Status is the outcome in a response, the channel sequence in a request of 3.x.
	Status  Status
	Command Command
	// Credits is the number requested in a request and granted in a response.
	Credits     uint16
	Flags       Flags
	NextCommand uint32
	MessageID   uint64
	// AsyncID replaces TreeID when Flags has FlagAsync (2.2.1.1).
	AsyncID   uint64
	TreeID    uint32
	SessionID uint64
	Signature [SignatureSize]byte
}

// Append appends the 64 bytes of h to dst.
func (h *Header) Append(dst []byte) []byte {
	dst = le.AppendUint32(dst, ProtocolSMB2)
	dst = le.AppendUint16(dst, HeaderSize)
	dst = le.AppendUint16(dst, h.CreditCharge)
	dst = le.AppendUint32(dst, uint32(h.Status))
	dst = le.AppendUint16(dst, uint16(h.Command))
	dst = le.AppendUint16(dst, h.Credits)
	dst = le.AppendUint32(dst, uint32(h.Flags))
	dst = le.AppendUint32(dst, h.NextCommand)
	dst = le.AppendUint64(dst, h.MessageID)
	if h.Flags&FlagAsync != 0 {
		dst = le.AppendUint64(dst, h.AsyncID)
	} else {
		dst = le.AppendUint32(dst, 0xfeff) // reserved; Windows sends its process id, Samba 0xfeff
		dst = le.AppendUint32(dst, h.TreeID)
	}
	dst = le.AppendUint64(dst, h.SessionID)
	return append(dst, h.Signature[:]...)
}

// DecodeHeader reads the header at the start of msg.
func DecodeHeader(msg []byte) (Header, error) {
	if len(msg) < HeaderSize {
		return Header{}, malformed("header", reasonShort)
	}
	if le.Uint32(msg) != ProtocolSMB2 {
		return Header{}, malformed("header", "not an SMB2 message")
	}
	if le.Uint16(msg[4:]) != HeaderSize {
		return Header{}, malformed("header", reasonSize)
	}
	h := Header{
		CreditCharge: le.Uint16(msg[OffsetCreditCharge:]),
		Status:       Status(le.Uint32(msg[OffsetStatus:])),
		Command:      Command(le.Uint16(msg[OffsetCommand:])),
		Credits:      le.Uint16(msg[OffsetCredits:]),
		Flags:        Flags(le.Uint32(msg[OffsetFlags:])),
		NextCommand:  le.Uint32(msg[OffsetNextCommand:]),
		MessageID:    le.Uint64(msg[OffsetMessageID:]),
		SessionID:    le.Uint64(msg[OffsetSessionID:]),
		Signature:    [SignatureSize]byte(msg[OffsetSignature:HeaderSize]),
	}
	if h.Flags&FlagAsync != 0 {
		h.AsyncID = le.Uint64(msg[32:])
	} else {
		h.TreeID = le.Uint32(msg[OffsetTreeID:])
	}
	return h, nil
}
