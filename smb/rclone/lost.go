package rclone

import (
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/tarn-go/tarn/smb"
)

// maxLosses is how many losses of the connection one change survives. Each replacement of the connection has attempts of its own.
const maxLosses = 3

// settle makes a change that package smb does not repeat when the connection was lost before the answer, because it may have been
// made. Then made looks whether it was, on the next connection, and the change is repeated if it was not. The server has ended the
// old session, with what that had under way, before it answers the new one. rclone does not repeat these changes either.
func settle(change func() error, made func() (bool, error)) error {
	for losses := 0; ; losses++ {
		err := change()
		if losses == maxLosses || !errors.Is(err, smb.ErrConnLost) {
			return err
		}
		switch yes, lookErr := made(); {
		case lookErr != nil:
			return fmt.Errorf("%w; whether the change was made is not known: %v", err, lookErr)
		case yes:
			return nil
		}
	}
}

// lookup describes what has a name: the Lstat or Stat of a share.
type lookup func(name string) (iofs.FileInfo, error)

// errAnother says that a name is that of another file than the one that was to be changed. Whether the change was made is not known then.
var errAnother = errors.New("another file has the name")

// remove removes the file or empty directory before. Another one that has its name after a loss is not removed.
func remove(share *smb.Share, at lookup, before iofs.FileInfo, name string) error {
	return settle(func() error { return share.Remove(name) }, func() (bool, error) { return isRemoved(at, before, name) })
}

// removeIf is remove for a file of which check returns nil when it is removed; otherwise it returns the error of check.
func removeIf(share *smb.Share, at lookup, before iofs.FileInfo, name string, check func(iofs.FileInfo) error) error {
	return settle(func() error { return share.RemoveIf(name, check) }, func() (bool, error) { return isRemoved(at, before, name) })
}

// removeAll removes the directory before with all that is in it. Another one that has its name after a loss is not removed.
func removeAll(share *smb.Share, before iofs.FileInfo, name string) error {
	return settle(func() error { return share.RemoveAll(name) }, func() (bool, error) { return isRemoved(share.Lstat, before, name) })
}

// isRemoved reports whether the file or directory before is not there any more.
func isRemoved(at lookup, before iofs.FileInfo, name string) (bool, error) {
	after, err := at(name)
	if gone, err := isMissing(after, err); gone || err != nil {
		return gone, err
	}
	x, y := before.Sys().(*smb.FileStat), after.Sys().(*smb.FileStat)
	switch known := x.FileID != 0 && y.FileID != 0; {
	case known && x.FileID != y.FileID:
		return true, nil
	case known && x.CreationTime.Equal(y.CreationTime), !known && sameFile(before, after):
		return false, nil
	}
	return false, errAnother // file systems give a new file the id of one that was removed
}

// makeDirs makes a directory and those above it, unless they exist.
func (f *Fs) makeDirs(share *smb.Share, name string) error {
	return settle(func() error { return share.MkdirAll(name, f.dirPerm) }, never)
}

// never has a change repeated after every loss, which does no harm if it was made.
func never() (bool, error) { return false, nil }

// isMissing reports whether the error of a call that describes a file says that there is none.
func isMissing(_ iofs.FileInfo, err error) (bool, error) {
	if errors.Is(err, iofs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// rename gives the file or directory before another name by change. After a loss it is given the name if it has the old one, and no other
// file is, which may have the old name.
func rename(at lookup, before iofs.FileInfo, from, to string, change func() error) error {
	return settle(change, func() (bool, error) {
		now, err := at(from)
		gone, err := isMissing(now, err)
		if err != nil || !gone && sameFile(before, now) {
			return false, err
		}
		after, err := at(to)
		if err == nil && !sameFile(before, after) {
			err = errAnother
		}
		return err == nil, err
	})
}

// sameFile reports whether both describe one file, which was not changed between: by its id, or where one is not known by its size and
// time.
func sameFile(a, b iofs.FileInfo) bool {
	x, y := a.Sys().(*smb.FileStat).FileID, b.Sys().(*smb.FileStat).FileID
	if x != 0 && y != 0 {
		return x == y
	}
	return a.IsDir() == b.IsDir() && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
