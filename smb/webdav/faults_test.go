package webdav_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
)

// TestFaults ends and stalls the connection while the file system does what a WebDAV handler asks of it, under a
// context that is, as a request's, not the share's.
func TestFaults(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcde\n"), 20_000)
	rigtest.Disturb(t, func(ctx context.Context, t *testing.T, share *smb.Share, dir string) error {
		fsys := smbdav.New(share.WithContext(context.Background()))
		if err := fsys.Mkdir(ctx, dir, 0o755); err != nil {
			return err
		}
		f, err := fsys.OpenFile(ctx, dir+"/one", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.Copy(f, bytes.NewReader(content)); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		f, err = fsys.OpenFile(ctx, dir+"/one", os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		var got bytes.Buffer
		_, err = io.Copy(&got, f)
		if !bytes.HasPrefix(content, got.Bytes()) {
			t.Errorf("%d bytes are not what was written", got.Len())
		}
		if err != nil {
			return err
		}
		if got.Len() != len(content) {
			t.Errorf("%d of %d bytes, and no error", got.Len(), len(content))
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := fsys.Rename(ctx, dir+"/one", dir+"/two"); err != nil {
			return err
		}
		d, err := fsys.OpenFile(ctx, dir, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer d.Close()
		list, err := d.Readdir(-1)
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].Name() != "two" || list[0].Size() != int64(len(content)) {
			t.Errorf("listed %v", list)
		}
		if err := d.Close(); err != nil {
			return err
		}
		return fsys.RemoveAll(ctx, dir)
	})
}
