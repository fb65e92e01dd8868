//go:build unix

package rclone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/tarn-go/tarn/internal/rig"
)

// onServerDisk makes a file in the directory of a share, for the user that the server serves.
func onServerDisk(t *testing.T, srv *rig.Server, name, content string) {
	t.Helper()
	file := filepath.Join(srv.Dir, name)
	must(t, os.WriteFile(file, []byte(content), 0o644))
	if os.Geteuid() == 0 {
		must(t, srv.Own(file))
	}
}

// TestFilesNamedAsLinks has files whose names end as those do that links are shown with. They are no links, and no other file is meant by them.
func TestFilesNamedAsLinks(t *testing.T) {
	f, srv, dir := newRemote(t, map[string]string{"LINKS": "true"})
	ctx := t.Context()
	for _, name := range []string{"x", "x.rclonelink", ".rclonelink"} {
		onServerDisk(t, srv, "dir/"+name, name)
	}
	then := time.Unix(1e9, 0)
	must(t, os.Chtimes(filepath.Join(dir, "x"), then, then))
	entries, err := f.List(ctx, "")
	must(t, err)
	var listed []string
	for _, e := range entries {
		listed = append(listed, e.Remote())
		o, ok := e.(*Object)
		if !ok || e.Remote() == "x" {
			continue
		}
		must(t, o.SetModTime(ctx, then.Add(time.Hour)))
		must(t, o.Remove(ctx))
	}
	if got := strings.Join(listed, " "); got != ".rclonelink x" {
		t.Errorf("listed %s", got)
	}
	if got := names(t, dir); got != "x x.rclonelink" {
		t.Errorf("left %s", got)
	}
	if fi, err := os.Stat(filepath.Join(dir, "x")); err != nil || !fi.ModTime().Equal(then) {
		t.Errorf("x: %v, %v", fi, err)
	}
	if o, err := f.NewObject(ctx, "x.rclonelink"); err != fs.ErrorObjectNotFound {
		t.Errorf("the file with a link's name: %v, %v", o, err)
	}
	if o, err := f.NewObject(ctx, "x"); err != nil || o.Size() != 1 {
		t.Errorf("x: %v, %v", o, err)
	}
	put(t, f, "sub/.rclonelink", "a file")
	if got := names(t, filepath.Join(dir, "sub")); got != ".rclonelink" {
		t.Errorf("the name of the extension alone made %s", got)
	}
}
