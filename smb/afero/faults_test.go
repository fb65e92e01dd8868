package afero_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	base "github.com/spf13/afero"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/afero"
)

// TestFaults ends and stalls the connection while afero's helpers write, read, list, rename and remove.
func TestFaults(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcde\n"), 20_000)
	disturb(t, func(_ context.Context, t *testing.T, share *smb.Share, dir string) error {
		afs := afero.New(share)
		if err := afs.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := base.WriteFile(afs, dir+"/one", content, 0o644); err != nil {
			return err
		}
		f, err := afs.Open(dir + "/one")
		if err != nil {
			return err
		}
		defer f.Close()
		got, err := io.ReadAll(f)
		if !bytes.HasPrefix(content, got) {
			t.Errorf("%d bytes are not what was written", len(got))
		}
		if err != nil {
			return err
		}
		if len(got) != len(content) {
			t.Errorf("%d of %d bytes, and no error", len(got), len(content))
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := afs.Rename(dir+"/one", dir+"/two"); err != nil {
			return err
		}
		list, err := base.ReadDir(afs, dir)
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].Name() != "two" || list[0].Size() != int64(len(content)) {
			t.Errorf("listed %v", list)
		}
		if err := afs.Remove(dir + "/two"); err != nil {
			return err
		}
		return afs.RemoveAll(dir)
	})
}
