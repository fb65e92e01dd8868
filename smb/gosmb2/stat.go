package smb2

import (
	"io/fs"
	"os"
	"time"

	"github.com/tarn-go/tarn/smb"
)

// FileStat describes a file, as reported by the server. It implements os.FileInfo.
type FileStat struct {
	CreationTime    time.Time
	LastAccessTime  time.Time
	LastWriteTime   time.Time
	ChangeTime      time.Time
	EndOfFile       int64  // bytes
	AllocationSize  int64  // bytes on the server's disk
	FileAttributes  uint32 // MS-FSCC 2.6
	FileId          uint64 // unique on its volume; zero: not known
	ReparsePointTag uint32 // MS-FSCC 2.1.2.1; zero: not known, or none
	FileName        string

	reported bool        // by package smb, with mode; false in a FileStat that the program made
	mode     fs.FileMode // may be zero with the POSIX extensions
}

// Attributes of a file (MS-FSCC 2.6).
const (
	attributeReadOnly     = 0x1
	attributeDirectory    = 0x10
	attributeReparsePoint = 0x400
)

// newStat converts fi, whose Sys is package smb's, and names it name.
func newStat(fi fs.FileInfo, name string) *FileStat {
	st := &FileStat{FileName: name, reported: true, mode: fi.Mode(), EndOfFile: fi.Size(), LastWriteTime: fi.ModTime()}
	if s, ok := fi.Sys().(*smb.FileStat); ok {
		st.CreationTime, st.LastAccessTime, st.ChangeTime = s.CreationTime, s.LastAccessTime, s.ChangeTime
		st.AllocationSize, st.FileAttributes = s.AllocationSize, s.FileAttributes
		st.FileId, st.ReparsePointTag = s.FileID, s.ReparseTag
	}
	return st
}

// Name is the last component of the file's name.
func (fs *FileStat) Name() string { return fs.FileName }

// Size is the file's length in bytes.
func (fs *FileStat) Size() int64 { return fs.EndOfFile }

// ModTime is the time of the last write.
func (fs *FileStat) ModTime() time.Time { return fs.LastWriteTime }

// IsDir reports whether this is a directory.
func (fs *FileStat) IsDir() bool { return fs.Mode().IsDir() }

// Sys returns fs.
func (fs *FileStat) Sys() any { return fs }

// Mode is the file's mode with the POSIX extensions ([smb.Dialer.POSIX] in Dialer.SMB). Otherwise it converts the server's attributes to
// mode bits; "read only" is the only permission they hold.
func (fs *FileStat) Mode() os.FileMode {
	if fs.reported {
		return fs.mode
	}
	mode := os.FileMode(0o666)
	if fs.FileAttributes&attributeReadOnly != 0 {
		mode = 0o444
	}
	if fs.FileAttributes&attributeDirectory != 0 {
		mode |= os.ModeDir | 0o111
	}
	if fs.FileAttributes&attributeReparsePoint != 0 {
		mode |= os.ModeSymlink
	}
	return mode
}

// FileFsInfo is the size and free space of a share's file system, in units that the server chooses.
type FileFsInfo interface {
	BlockSize() uint64           // bytes of an allocation unit
	FragmentSize() uint64        // sectors of an allocation unit
	TotalBlockCount() uint64     // allocation units
	FreeBlockCount() uint64      // those that are free
	AvailableBlockCount() uint64 // those that are free for this user
}

// room is a FileFsInfo. Package smb counts bytes; a sector is taken to have 512.
type room struct{ st smb.Statfs }

const sectorBytes = 512

func (r room) BlockSize() uint64           { return uint64(r.st.BlockSize) }
func (r room) FragmentSize() uint64        { return max(1, uint64(r.st.BlockSize)/sectorBytes) }
func (r room) TotalBlockCount() uint64     { return r.blocks(r.st.TotalBytes) }
func (r room) FreeBlockCount() uint64      { return r.blocks(r.st.FreeBytes) }
func (r room) AvailableBlockCount() uint64 { return r.blocks(r.st.AvailableBytes) }

func (r room) blocks(bytes int64) uint64 { return uint64(bytes) / max(1, uint64(r.st.BlockSize)) }
