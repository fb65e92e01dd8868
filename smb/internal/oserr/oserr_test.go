package oserr

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/tarn-go/tarn/smb"
)

func TestFrom(t *testing.T) {
	path := func(err error) error { return &fs.PathError{Op: "open", Path: "x", Err: err} }
	refused := func(status smb.Status) error { return &smb.ResponseError{Command: "CREATE", Status: status} }
	if err := From(path(refused(0xC0000034))); !os.IsNotExist(err) || err.(*fs.PathError).Path != "x" {
		t.Error(err)
	}
	if err := From(&os.LinkError{Op: "rename", Old: "a", New: "b", Err: refused(0xC0000035)}); !os.IsExist(err) || err.(*os.LinkError).New != "b" {
		t.Error(err)
	}
	if err := From(path(refused(0xC0000022))); !os.IsPermission(err) {
		t.Error(err)
	}
	for _, err := range []error{nil, io.EOF, errors.New("x"), path(smb.ErrConnLost)} {
		if got := From(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
