// Package oserr converts the errors of package smb to the form that os.IsNotExist and its like recognise.
package oserr

import (
	"errors"
	"io/fs"
	"os"
)

// From converts err so that os.IsNotExist, os.IsExist and os.IsPermission recognise it: they look only at the
// error inside a PathError or LinkError. Other errors are returned as they are.
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
