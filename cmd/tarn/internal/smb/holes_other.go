//go:build !(linux || darwin || freebsd)

package smb

import (
	"errors"

	client "github.com/tarn-go/tarn/smb"
)

// errHoles is returned where the command can neither find nor make holes in files of this machine.
var errHoles = errors.New("holes of files are not supported here")

func (f localFile) AllocatedRanges(_, _ int64) ([]client.Range, error) { return nil, errHoles }

func (f localFile) SetSparse() error { return errHoles }
