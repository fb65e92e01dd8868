package rclone

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/accounting"
	rsync "github.com/rclone/rclone/fs/sync"
	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/rig"
)

// TestFullDisk copies a file for which the server's disk has no room: as a new one, over another, and over another in place. No part of it
// is taken for the file by a later sync, which copies it when there is room.
func TestFullDisk(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			path, srv := serve(t, rig.Config{Mode: mode}, nil)
			if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", srv.Dir).CombinedOutput(); err != nil {
				leftout.Skip(t, fmt.Sprintf("a file system cannot be mounted here: %v: %s", err, bytes.TrimSpace(out)))
			}
			t.Cleanup(func() {
				if out, err := exec.Command("umount", "-l", srv.Dir).CombinedOutput(); err != nil {
					t.Errorf("umount: %v: %s", err, out)
				}
			})
			must(t, srv.Own(srv.Dir))
			const size = 3 << 20
			content := strings.Repeat("0123456789abcdef", size/16)
			from := t.TempDir()
			must(t, os.WriteFile(filepath.Join(from, "file"), []byte(content), 0o644))
			local, err := fs.NewFs(t.Context(), from)
			must(t, err)
			for name, c := range map[string]struct {
				inplace bool
				cutoff  fs.SizeSuffix // above which a file is copied in pieces
				old     string
				left    bool // a part of the file may have its name
			}{
				"new":                        {cutoff: 1 << 30},
				"new in place":               {cutoff: 1 << 30, inplace: true},
				"new in pieces":              {cutoff: 64 << 10},
				"new in pieces in place":     {cutoff: 64 << 10, inplace: true},
				"old":                        {cutoff: 1 << 30, old: "old"},
				"old in place":               {cutoff: 1 << 30, old: "old", inplace: true, left: true},
				"old in pieces":              {cutoff: 64 << 10, old: "old"},
				"old in pieces in place":     {cutoff: 64 << 10, old: "old", inplace: true},
				"longer in place":            {cutoff: 1 << 30, old: content[:1<<20] + "longer", inplace: true, left: true},
				"shorter in pieces in place": {cutoff: 64 << 10, old: strings.ToUpper(content[:1<<20]), inplace: true},
			} {
				t.Run(name, func(t *testing.T) {
					f := open(t, path+"/"+strings.ReplaceAll(name, " ", "-"))
					must(t, f.Mkdir(t.Context(), ""))
					if c.old != "" {
						put(t, f, "file", c.old)
					}
					fill := filepath.Join(srv.Dir, "fill")
					must(t, os.WriteFile(fill, make([]byte, 2<<20), 0o644))
					ctx, ci := fs.AddConfig(accounting.WithStatsGroup(t.Context(), t.Name()))
					ci.Inplace, ci.MultiThreadCutoff, ci.MultiThreadChunkSize, ci.MultiThreadSet = c.inplace, c.cutoff, 256<<10, true
					ci.LowLevelRetries = 2
					err := rsync.Sync(ctx, f, local, false)
					if !errors.Is(err, syscall.ENOSPC) {
						t.Errorf("on a full disk: %v", err)
					}
					entries, err := f.List(t.Context(), "")
					must(t, err)
					for _, e := range entries {
						o := e.(*Object)
						if e.Remote() != "file" || o.Size() != int64(len(c.old)) && !c.left || o.Size() == size {
							t.Errorf("there is %s with %d bytes, %v", e.Remote(), e.Size(), o.ModTime(ctx))
						}
					}
					if n := len(entries); n > 1 || n == 0 && c.old != "" && !c.inplace {
						t.Errorf("%d files are there", n)
					}
					must(t, os.Remove(fill))
					must(t, rsync.Sync(accounting.WithStatsGroup(ctx, t.Name()+"again"), f, local, false))
					o, err := f.NewObject(ctx, "file")
					must(t, err)
					r, err := o.Open(ctx)
					must(t, err)
					b, err := io.ReadAll(r)
					must(t, err)
					must(t, r.Close())
					if string(b) != content {
						t.Errorf("%d bytes, others than were copied", len(b))
					}
					must(t, f.Purge(ctx, ""))
				})
			}
		})
	}
}
