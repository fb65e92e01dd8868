package rclone

import (
	"strings"
	"testing"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/object"
	"github.com/rclone/rclone/fs/operations"
	"github.com/tarn-go/tarn/internal/rig"
)

// TestAttributes writes times of creation and attributes with uploads over files and as new ones, in pieces, with copies and moves by the
// server, and alone.
func TestAttributes(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			path, _ := remote(t, mode, nil)
			f := open(t, path)
			ctx, ci := fs.AddConfig(t.Context())
			ci.Metadata = true
			want := fs.Metadata{
				"mtime": "2003-02-01T00:00:01.0000007Z", "btime": "2001-02-03T04:05:06.0000007Z", "atime": "2002-02-03T04:05:06.0000007Z", "attributes": "26",
			}
			src := func(name string, meta fs.Metadata) fs.ObjectInfo {
				return object.NewStaticObjectInfo(name, time.Unix(1e9, 0), 3, true, nil, nil).WithMetadata(meta)
			}
			has := func(name string, want fs.Metadata) {
				t.Helper()
				o, err := f.NewObject(ctx, name)
				must(t, err)
				got, err := fs.GetMetadata(ctx, o)
				must(t, err)
				for key, value := range want {
					at, err := time.Parse(time.RFC3339Nano, value)
					if now, _ := time.Parse(time.RFC3339Nano, got[key]); err == nil && !now.Equal(at) || err != nil && got[key] != value {
						t.Errorf("%s: %s is %s, want %s", name, key, got[key], value)
					}
				}
			}
			new, err := f.Put(ctx, strings.NewReader("new"), src("new", want), fs.MetadataAsOpenOptions(ctx)...)
			must(t, err)
			has("new", want)
			put(t, f, "old", "a longer content")
			_, err = f.Put(ctx, strings.NewReader("old"), src("old", want))
			must(t, err)
			has("old", want)
			_, w, err := f.OpenChunkWriter(ctx, "pieces", src("pieces", want))
			must(t, err)
			_, err = w.WriteChunk(ctx, 0, strings.NewReader("new"))
			must(t, err)
			must(t, w.Close(ctx))
			has("pieces", want)

			copied, err := f.Copy(ctx, new, "copied")
			must(t, err)
			has("copied", want)
			moved, err := f.Move(ctx, copied, "moved")
			must(t, err)
			has("moved", want)
			if !moved.ModTime(ctx).Equal(time.Date(2003, 2, 1, 0, 0, 1, 700, time.UTC)) {
				t.Error(moved.ModTime(ctx))
			}
			ci.MetadataSet = fs.Metadata{"attributes": "3", "btime": "2011-02-03T04:05:06Z"}
			put(t, f, "replaced", "content")
			moved, err = f.Move(ctx, moved, "replaced")
			must(t, err)
			has("replaced", fs.Metadata{"mtime": want["mtime"], "btime": "2011-02-03T04:05:06Z", "attributes": "3"})
			if err := moved.Remove(ctx); err != nil {
				t.Errorf("a read-only file: %v", err)
			}
			ci.MetadataSet = nil

			_, err = operations.Copy(ctx, f, nil, "whole", new)
			must(t, err)
			has("whole", fs.Metadata{"attributes": want["attributes"], "btime": want["btime"]})
			_, err = operations.Move(ctx, f, nil, "last", new)
			must(t, err)
			has("last", fs.Metadata{"attributes": want["attributes"], "btime": want["btime"]})
			if o, err := f.NewObject(ctx, "old"); err != nil || o.Size() != 3 {
				t.Error(o, err)
			}
		})
	}
}
