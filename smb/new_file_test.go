package smb_test

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

func TestWriteNewFile(t *testing.T) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			share, err := dial(t, srv, smb.Dialer{}).Mount(t.Context(), srv.Share)
			must(t, err)
			when := time.Unix(1_600_000_000, 123_456_700)
			for name, size := range map[string]int{"empty": 0, "small": 4096, "frame": 64 << 10, "large": 200_000} {
				want := random(size)
				must(t, share.WriteNewFile(name, want, 0o666, when))
				if !bytes.Equal(onDisk(t, srv, name), want) {
					t.Errorf("%s: the disk has other content", name)
				}
				fi, err := share.Stat(name)
				if err != nil || !fi.ModTime().Equal(when) {
					t.Errorf("%s: %v, %v", name, fi, err)
				}
				if err := share.WriteNewFile(name, []byte("other"), 0o666, when); !errors.Is(err, fs.ErrExist) {
					t.Errorf("%s, again: %v", name, err)
				}
				if !bytes.Equal(onDisk(t, srv, name), want) {
					t.Errorf("%s: was changed", name)
				}
			}
			if err := share.WriteNewFile("none/x", nil, 0o666, time.Time{}); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			if err := share.WriteNewFile("a?b", nil, 0o666, time.Time{}); !errors.Is(err, smb.ErrName) {
				t.Error(err)
			}
		})
	}
}
