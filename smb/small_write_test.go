package smb_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
)

// TestSmallFilesLargerThanAWrite writes files of up to 64 KiB where one WRITE may have less: by the server's MaxWriteSize, or
// by Limits.MaxWrite. They take several WRITEs.
func TestSmallFilesLargerThanAWrite(t *testing.T) {
	const limit = 4096
	for _, kind := range kinds() {
		for _, by := range []string{"server", "client"} {
			for _, size := range []int{limit, limit + 1, 20_000, 64 << 10} {
				t.Run(fmt.Sprintf("%s/%s/%d", kind, by, size), func(t *testing.T) {
					var disk memoryDisk
					want := random(size)
					disk.reset(map[string][]byte{"file": []byte("old"), "write": random(100_000), "replace": []byte("old"), "taken": []byte("old")})
					s := protections()[kind]
					s.Hook = disk.hook
					var d smb.Dialer
					if by == "server" {
						s.MaxIO = limit
					} else {
						d.Limits.MaxWrite = limit
					}
					f, err := scripted(t, s, d)
					must(t, err)
					share := f.Share()
					when := time.Unix(1e9, 0)
					must(t, share.WriteFile("write", want, 0o666))
					must(t, share.WriteFile("written", want, 0o666))
					must(t, share.ReplaceFile("replace", want, 0o666, when))
					must(t, share.WriteNewFile("new", want, 0o666, when))
					if err := share.WriteNewFile("taken", want, 0o666, when); !errors.Is(err, fs.ErrExist) {
						t.Errorf("WriteNewFile onto a file: %v", err)
					}
					for _, name := range []string{"write", "written", "replace", "new"} {
						if got, ok := disk.content(name); !ok || !bytes.Equal(got, want) {
							t.Errorf("%s: %d bytes, there: %t", name, len(got), ok)
						}
					}
					if got, _ := disk.content("taken"); string(got) != "old" {
						t.Errorf("taken: %q", got)
					}
					if n := disk.files(); n != 11 { // the directories "" and dir, its three files, "file", "taken" and the four above
						t.Errorf("%d names: a temporary file was left", n)
					}
				})
			}
		}
	}
}
