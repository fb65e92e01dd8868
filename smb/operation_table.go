package smb

import "strings"

// opKind is a kind of operation.
type opKind uint8

// Kinds of operations, in the order of the table in docs/reference/smb.md.
const (
	opDescribe opKind = iota
	opList
	opReadFile
	opOpen
	opCreate
	opCreateNew
	opReopen
	opWriteFile
	opNewFile
	opRemoveUnfinished
	opTruncate
	opSet
	opMkdir
	opRename
	opRenameIf
	opSymlink
	opRemove
	opRemoveIf
	opRemoveTree
	opListTree
	opRemoveReadOnly
	opRead
	opWrite
	opAppend
	opDescribeFile
	opQueryFile
	opTruncateFile
	opSetFile
	opSetByName
	opCopy
	opLock
	opUnlock
	opWatch
	opClose
	opMount
	opUnmount
	opEcho

	opKinds // how many there are
)

// opRule is what holds for the operations of a kind. The code has no other place for it; the rules generate the table in
// docs/reference/smb.md, too.
type opRule struct {
	methods string // that are such operations, or parts of them
	repeat  repetition
	links   linkPolicy
	changes changes
	undone  undoing
	order   ordering
}

// repetition says what is done about an operation whose connection was lost.
type repetition uint8

const (
	repeated repetition = iota // it is run again, within its budget: to run it twice is the same as once
	sentOnce                   // it fails with ErrConnLost: the server may have carried it out
)

// linkPolicy says what is done about a link in a name that the server leaves to the client.
type linkPolicy uint8

const (
	followed    linkPolicy = iota // to its target, which may be on another server
	notFollowed                   // the operation fails with the server's refusal
	noName                        // there is no name: the file is open
)

// changes is a set of what the requests of an operation change on the server.
type changes uint8

const (
	opensFiles        changes = 1 << iota // while one is open, it cannot be replaced
	changesContent                        // of a file: what was read ahead of it is outdated
	changesAttributes                     // of a file, and what else belongs to it
	changesNames
	changesLocks
)

func (c changes) has(x changes) bool { return c&x != 0 }

// hasEffect reports whether later operations on the file wait for the answers to such requests whose callers have returned.
func (c changes) hasEffect() bool { return c.has(opensFiles) || c.outlastsSession() }

// outlastsSession reports whether the change remains when the session ends.
func (c changes) outlastsSession() bool {
	return c.has(changesContent | changesAttributes | changesNames)
}

func (c changes) String() string {
	var words []string
	for i, word := range []string{"", "content", "attributes", "names", "locks"} {
		if c.has(1<<i) && word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

// undoing says what is undone if the context of an operation ends and the server carries it out nevertheless. What an operation with
// undoCreate has created is also removed if a later step of it fails.
type undoing uint8

const (
	notUndone   undoing = iota
	undoOpen            // the file is closed
	undoCreate          // the file is closed and removed
	undoLocking         // the range is unlocked
)

func (u undoing) String() string {
	return [...]string{"", "the file is closed", "the file is closed and removed", "the range is unlocked"}[u]
}

// ordering says whether an operation waits until the server has answered the requests on its file whose callers have returned and that
// have an effect.
type ordering uint8

const (
	ordered ordering = iota
	unordered
)

// rule returns the rule of a kind.
func (k opKind) rule() opRule {
	switch k {
	case opDescribe:
		return opRule{methods: "`Stat`, `Lstat`, `Readlink`, `Statfs`, `Snapshots`, `LongName`, `Streams`, `ExtendedAttributes`, `SecurityDescriptor`"}
	case opList:
		return opRule{methods: "`ReadDir`, `Entries`, `WalkDir`, `Glob`, `Shares`; a listing continues where it was and returns no entry twice",
			changes: opensFiles, undone: undoOpen}
	case opReadFile:
		return opRule{methods: "`ReadFile`, `ReadFileInfo`"}
	case opOpen:
		return opRule{methods: "`Open`, `OpenFile`, `OpenStream`, `OpenAttributes`, `Watch`", changes: opensFiles, undone: undoOpen}
	case opCreate:
		return opRule{methods: "`Create`, and opening with `os.O_CREATE` or `os.O_TRUNC`",
			changes: opensFiles | changesContent | changesNames, undone: undoOpen}
	case opCreateNew:
		return opRule{methods: "opening with `os.O_EXCL`", repeat: sentOnce, changes: opensFiles | changesNames, undone: undoOpen}
	case opReopen: // the operation that needs the file is in order
		return opRule{methods: "opening again on another connection", links: noName, changes: opensFiles, undone: undoOpen, order: unordered}
	case opWriteFile:
		return opRule{methods: "`WriteFile`: the same bytes to the same place", changes: changesContent | changesNames}
	case opNewFile:
		return opRule{methods: "`WriteNewFile`, `ReplaceFile`", repeat: sentOnce, changes: changesContent | changesNames, undone: undoCreate}
	case opRemoveUnfinished: // if the requests that were given up are carried out later, they find no file
		return opRule{methods: "removing an unfinished file", repeat: sentOnce, changes: opensFiles | changesNames, undone: undoOpen, order: unordered}
	case opTruncate:
		return opRule{methods: "`Truncate`", changes: changesContent}
	case opSet:
		return opRule{methods: "`Chtimes`, `Lchtimes`, `Chown`, `SetExtendedAttribute`, `SetSecurityDescriptor`", changes: changesAttributes}
	case opMkdir:
		return opRule{methods: "`Mkdir`, `MkdirAll`", repeat: sentOnce, changes: changesNames}
	case opRename:
		return opRule{methods: "`Rename`, `RenameNoReplace`, `Link`; of `ReplaceFile` the last step, which is repeated if the server has not done it",
			repeat: sentOnce, changes: changesNames}
	case opRenameIf:
		return opRule{methods: "`RenameIf`, `RenameNoReplaceIf`", repeat: sentOnce, changes: opensFiles | changesNames, undone: undoOpen}
	case opSymlink:
		return opRule{methods: "`Symlink`, `SymlinkTimes`", repeat: sentOnce, changes: changesNames, undone: undoCreate}
	case opRemove:
		return opRule{methods: "`Remove`, `RemoveStream`", repeat: sentOnce, changes: changesNames}
	case opRemoveIf:
		return opRule{methods: "`RemoveIf`, `File.Remove`, a read-only file for `Remove`", repeat: sentOnce, changes: opensFiles | changesNames, undone: undoOpen}
	case opRemoveTree:
		return opRule{methods: "`RemoveAll`, `RemoveAllFunc`", repeat: sentOnce, links: notFollowed, changes: changesNames}
	case opListTree:
		return opRule{methods: "their listings", links: notFollowed, changes: opensFiles, undone: undoOpen}
	case opRemoveReadOnly:
		return opRule{methods: "a read-only file for them", repeat: sentOnce, links: notFollowed, changes: opensFiles | changesNames, undone: undoOpen}
	case opRead:
		return opRule{methods: "`Read`, `ReadAt`, `ReadBuffer`, `WriteTo`, `WriteRangesTo`", links: noName}
	case opWrite:
		return opRule{methods: "`Write`, `WriteAt`, `ReadFrom`, `ReadRangesFrom`: the same bytes to the same place", links: noName, changes: changesContent}
	case opAppend:
		return opRule{methods: "`Write` and `ReadFrom` of a file opened with `os.O_APPEND`", repeat: sentOnce, links: noName, changes: changesContent}
	case opDescribeFile: // also while the server stalls: nothing that it returns can be undone
		return opRule{methods: "`File.Stat`", links: noName, order: unordered}
	case opQueryFile:
		return opRule{methods: "`Seek`, `Sync`, `ID`, `AllocatedRanges`, `File.ReadDir`, `Readdir`, `Readdirnames`", links: noName}
	case opTruncateFile:
		return opRule{methods: "`File.Truncate`, `PunchHole`", links: noName, changes: changesContent}
	case opSetFile:
		return opRule{methods: "`File.Chtimes`, `File.Chmod`, `SetAttributes`, `SetSparse`", links: noName, changes: changesAttributes}
	case opSetByName:
		return opRule{methods: "`Chmod`, `LchtimesIf`, `File.Chown`; `File.Chmod` of a file opened again; cutting one for `WriteFile`", changes: opensFiles | changesAttributes, undone: undoOpen}
	case opCopy:
		return opRule{methods: "`Copy`, `CopyFrom`, `CopyRange`, after their files are open", links: noName, changes: changesContent}
	case opLock:
		return opRule{methods: "`Lock`, `TryLock`", repeat: sentOnce, links: noName, changes: changesLocks, undone: undoLocking}
	case opUnlock:
		return opRule{methods: "`Unlock`", repeat: sentOnce, links: noName, changes: changesLocks}
	case opWatch:
		return opRule{methods: "`Watcher.Next`", repeat: sentOnce, links: noName}
	case opClose:
		return opRule{methods: "`File.Close`, of a file that has a durable handle", links: noName}
	case opMount:
		return opRule{methods: "`Session.Mount`", links: noName}
	case opUnmount:
		return opRule{methods: "`Unmount`, which has nothing left to do on a lost connection", repeat: sentOnce, links: noName}
	case opEcho:
		return opRule{methods: "`Session.Echo`, `Session.Check`", repeat: sentOnce, links: noName}
	}
	return opRule{repeat: sentOnce}
}
