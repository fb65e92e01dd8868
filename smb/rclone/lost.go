package rclone

import (
	"errors"
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
		if yes, lookErr := made(); lookErr != nil {
			return err
		} else if yes {
			return nil
		}
	}
}

// remove removes a file or an empty directory.
func remove(share *smb.Share, name string) error {
	return settle(func() error { return share.Remove(name) }, func() (bool, error) { return isMissing(share.Lstat(name)) })
}

// makeDirs makes a directory and those above it, unless they exist.
func makeDirs(share *smb.Share, name string) error {
	return settle(func() error { return share.MkdirAll(name, 0o777) }, never)
}

// removeAll removes the directory before with all that is in it, and not another one that has its name after a loss.
func removeAll(share *smb.Share, before iofs.FileInfo, name string) error {
	return settle(func() error { return share.RemoveAll(name) }, func() (bool, error) {
		after, err := share.Lstat(name)
		if gone, err := isMissing(after, err); gone || err != nil {
			return gone, err
		}
		x, y := before.Sys().(*smb.FileStat).FileID, after.Sys().(*smb.FileStat).FileID
		return x != 0 && y != 0 && x != y, nil
	})
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

// rename gives the file or directory before another name by change. After a loss, the file that has the name must be that one.
func rename(share *smb.Share, before iofs.FileInfo, from, to string, change func() error) error {
	return settle(change, func() (bool, error) {
		if gone, err := isMissing(share.Lstat(from)); !gone || err != nil {
			return false, err
		}
		after, err := share.Lstat(to)
		if err == nil && !sameFile(before, after) {
			err = iofs.ErrNotExist
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
