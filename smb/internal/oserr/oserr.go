// Package oserr gives the errors of package smb the form that programs of package os test for.
package oserr

import (
	"errors"
	"io/fs"
	"os"
)

// From is err such that os.IsNotExist, os.IsExist and os.IsPermission know it, which look at the
// error in a PathError or LinkError alone. Others come as they are.
func From(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		if class := class(e.Err); class != nil {
			return &fs.PathError{Op: e.Op, Path: e.Path, Err: class}
		}
	case *os.LinkError:
		if class := class(e.Err); class != nil {
			return &os.LinkError{Op: e.Op, Old: e.Old, New: e.New, Err: class}
		}
	}
	return err
}

func class(err error) error {
	for _, class := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, fs.ErrClosed} {
		if errors.Is(err, class) {
			return class
		}
	}
	return nil
}
