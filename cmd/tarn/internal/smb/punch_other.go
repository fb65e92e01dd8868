//go:build !linux

package smb

import "errors"

func (f localFile) deallocate(_, _ int64) error { return errors.ErrUnsupported }
