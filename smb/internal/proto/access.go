package proto

// Access is a set of rights on a file, directory, pipe or share (2.2.13.1).
type Access uint32

// Access rights (2.2.13.1.1, 2.2.13.1.2). A directory reads AccessReadData as "list" and
// AccessWriteData as "add file".
const (
	AccessReadData        Access = 0x00000001
	AccessWriteData       Access = 0x00000002
	AccessAppendData      Access = 0x00000004
	AccessReadEA          Access = 0x00000008
	AccessWriteEA         Access = 0x00000010
	AccessExecute         Access = 0x00000020
	AccessDeleteChild     Access = 0x00000040
	AccessReadAttributes  Access = 0x00000080
	AccessWriteAttributes Access = 0x00000100
	AccessDelete          Access = 0x00010000
	AccessReadControl     Access = 0x00020000
	AccessWriteDAC        Access = 0x00040000
	AccessWriteOwner      Access = 0x00080000
	AccessSynchronize     Access = 0x00100000
	AccessSystemSecurity  Access = 0x01000000
	AccessMaximumAllowed  Access = 0x02000000
	AccessGenericAll      Access = 0x10000000
	AccessGenericExecute  Access = 0x20000000
	AccessGenericWrite    Access = 0x40000000
	AccessGenericRead     Access = 0x80000000
)

// Attributes of a file (MS-FSCC 2.6).
type Attributes uint32

// File attributes (MS-FSCC 2.6).
const (
	AttrReadOnly     Attributes = 0x00000001
	AttrHidden       Attributes = 0x00000002
	AttrSystem       Attributes = 0x00000004
	AttrDirectory    Attributes = 0x00000010
	AttrArchive      Attributes = 0x00000020
	AttrNormal       Attributes = 0x00000080
	AttrTemporary    Attributes = 0x00000100
	AttrSparse       Attributes = 0x00000200
	AttrReparsePoint Attributes = 0x00000400
	AttrCompressed   Attributes = 0x00000800
	AttrOffline      Attributes = 0x00001000
	AttrNotIndexed   Attributes = 0x00002000
	AttrEncrypted    Attributes = 0x00004000
)

// ShareAccess is the access that other handles may have meanwhile (2.2.13).
type ShareAccess uint32

// Sharing (2.2.13).
const (
	ShareRead   ShareAccess = 1
	ShareWrite  ShareAccess = 2
	ShareDelete ShareAccess = 4
	ShareAll    ShareAccess = ShareRead | ShareWrite | ShareDelete
)

// Disposition is what CREATE does when the file exists and when it does not (2.2.13).
type Disposition uint32

// Dispositions (2.2.13).
const (
	DispositionSupersede   Disposition = 0 // replace, or create
	DispositionOpen        Disposition = 1 // open, or fail
	DispositionCreate      Disposition = 2 // fail, or create
	DispositionOpenIf      Disposition = 3 // open, or create
	DispositionOverwrite   Disposition = 4 // truncate, or fail
	DispositionOverwriteIf Disposition = 5 // truncate, or create
)

// CreateOptions (2.2.13).
type CreateOptions uint32

// Create options a client uses (2.2.13).
const (
	OptionDirectory        CreateOptions = 0x00000001
	OptionWriteThrough     CreateOptions = 0x00000002
	OptionSequential       CreateOptions = 0x00000004
	OptionNoBuffering      CreateOptions = 0x00000008
	OptionNonDirectory     CreateOptions = 0x00000040
	OptionRandomAccess     CreateOptions = 0x00000800
	OptionDeleteOnClose    CreateOptions = 0x00001000
	OptionBackupIntent     CreateOptions = 0x00004000
	OptionOpenReparsePoint CreateOptions = 0x00200000
)

// OplockLevel is the caching requested or granted (2.2.13).
type OplockLevel uint8

// Oplock levels (2.2.13).
const (
	OplockNone      OplockLevel = 0x00
	OplockII        OplockLevel = 0x01
	OplockExclusive OplockLevel = 0x08
	OplockBatch     OplockLevel = 0x09
	OplockLease     OplockLevel = 0xff
)

// ImpersonationImpersonation is the level that every client requests (2.2.13).
const ImpersonationImpersonation uint32 = 2
