package smb

// opKind is a kind of operation.
type opKind uint8

// Kinds of operations, in the order of the table in docs/reference/smb.md.
const (
	opDescribe opKind = iota
	opList
	opReadFile
	opOpen
	opOpenNew
	opWriteFile
	opSet
	opMkdir
	opRename
	opSymlink
	opRemove
	opRemoveTree
	opLookInTree
	opRead
	opWrite
	opAppend
	opQueryFile
	opSetFile
	opCopy
	opLock
	opWatch
	opClose
	opUnmount

	opKinds // how many there are
)

// opRule is what holds for the operations of a kind. The rules generate the table in docs/reference/smb.md.
type opRule struct {
	methods string // that are such operations, or parts of them
	repeat  repetition
	links   linkPolicy
	changes string // on the server
	undone  string // what is undone when the context ends and the server carries the request out nevertheless
}

// rule returns the rule of a kind.
func (k opKind) rule() opRule {
	switch k {
	case opDescribe:
		return opRule{methods: "`Stat`, `Lstat`, `Readlink`, `Statfs`, `Snapshots`, `Streams`, `ExtendedAttributes`, `SecurityDescriptor`, `Shares`"}
	case opList:
		return opRule{methods: "`ReadDir`, `Entries`, `WalkDir`, `Glob`; a listing continues where it was and returns no entry twice", undone: "the directory is closed"}
	case opReadFile:
		return opRule{methods: "`ReadFile`, `ReadFileInfo`"}
	case opOpen:
		return opRule{methods: "`Open`, `Create`, `OpenFile`, `OpenStream`, `Watch`", changes: "creates or empties a file, by its flags", undone: "the file is closed"}
	case opOpenNew:
		return opRule{methods: "opening with `os.O_EXCL`, `WriteNewFile`, `ReplaceFile`", repeat: sentOnce, changes: "creates a file",
			undone: "the file is closed; but for `os.O_EXCL` it is removed"}
	case opWriteFile:
		return opRule{methods: "`WriteFile`: the same bytes to the same place", changes: "creates a file; its content"}
	case opSet:
		return opRule{methods: "`Truncate`, `Chtimes`, `Chmod`, `SetExtendedAttribute`, `SetSecurityDescriptor`", changes: "what they name"}
	case opMkdir:
		return opRule{methods: "`Mkdir`, `MkdirAll`", repeat: sentOnce, changes: "creates a directory"}
	case opRename:
		return opRule{methods: "`Rename`, `RenameNoReplace`, `Link`; of `ReplaceFile` the last step, which is repeated if the server has not done it",
			repeat: sentOnce, changes: "names"}
	case opSymlink:
		return opRule{methods: "`Symlink`", repeat: sentOnce, changes: "creates a link", undone: "the link is removed"}
	case opRemove:
		return opRule{methods: "`Remove`, `RemoveStream`", repeat: sentOnce, changes: "removes a file"}
	case opRemoveTree:
		return opRule{methods: "`RemoveAll`, `RemoveAllFunc`", repeat: sentOnce, links: notFollowed, changes: "removes files"}
	case opLookInTree:
		return opRule{methods: "their listings, and what makes a file writable for them", links: notFollowed, changes: "attributes", undone: "the directory is closed"}
	case opRead:
		return opRule{methods: "`Read`, `ReadAt`, `ReadBuffer`, `WriteTo`, `WriteRangesTo`", links: openFile}
	case opWrite:
		return opRule{methods: "`Write`, `WriteAt`, `ReadFrom`, `ReadRangesFrom`: the same bytes to the same place", links: openFile, changes: "content"}
	case opAppend:
		return opRule{methods: "`Write` and `ReadFrom` of a file opened with `os.O_APPEND`", repeat: sentOnce, links: openFile, changes: "content"}
	case opQueryFile:
		return opRule{methods: "`File.Stat`, `Seek`, `Sync`, `ID`, `AllocatedRanges`, `File.ReadDir`, `Readdir`, `Readdirnames`", links: openFile}
	case opSetFile:
		return opRule{methods: "`File.Truncate`, `File.Chtimes`, `File.Chmod`, `SetSparse`, `PunchHole`", links: openFile, changes: "what they name"}
	case opCopy:
		return opRule{methods: "`Copy`, `CopyFrom`, `CopyRange`, after their files are open", links: openFile, changes: "content"}
	case opLock:
		return opRule{methods: "`Lock`, `TryLock`, `Unlock`", repeat: sentOnce, links: openFile, changes: "locks", undone: "the range is unlocked"}
	case opWatch:
		return opRule{methods: "`Watcher.Next`", repeat: sentOnce, links: openFile}
	case opClose:
		return opRule{methods: "`File.Close`, of a file that has a durable handle", links: openFile, changes: "closes the file"}
	case opUnmount:
		return opRule{methods: "`Unmount`, which has nothing left to do on a lost connection", repeat: sentOnce, links: openFile, changes: "closes all files"}
	}
	return opRule{repeat: sentOnce}
}
