package smb_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestClosedFile calls every method of a closed file that fails on a closed file of package os, also where there is nothing to send.
func TestClosedFile(t *testing.T) {
	eachKind(t, func(t *testing.T, s *script.Server) {
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		must(t, f.Close())
		for name, call := range map[string]func() error{
			"Read":           func() error { _, err := f.Read(make([]byte, 1)); return err },
			"empty Read":     func() error { _, err := f.Read(nil); return err },
			"ReadAt":         func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
			"Write":          func() error { _, err := f.Write([]byte{1}); return err },
			"empty Write":    func() error { _, err := f.Write(nil); return err },
			"WriteAt":        func() error { _, err := f.WriteAt([]byte{1}, 0); return err },
			"ReadFrom":       func() error { _, err := f.ReadFrom(bytes.NewReader(nil)); return err },
			"WriteTo":        func() error { _, err := f.WriteTo(io.Discard); return err },
			"ReadRangesFrom": func() error { _, err := f.ReadRangesFrom(bytes.NewReader(nil), nil); return err },
			"WriteRangesTo":  func() error { _, err := f.WriteRangesTo(atOffsets(nil), nil); return err },
			"Seek":           func() error { _, err := f.Seek(0, io.SeekStart); return err },
			"Seek from here": func() error { _, err := f.Seek(1, io.SeekCurrent); return err },
			"Seek to end":    func() error { _, err := f.Seek(0, io.SeekEnd); return err },
			"Truncate":       func() error { return f.Truncate(0) },
			"Sync":           f.Sync,
			"Stat":           func() error { _, err := f.Stat(); return err },
			"Close":          f.Close,
		} {
			var path *fs.PathError
			if err := call(); !errors.Is(err, fs.ErrClosed) || !errors.As(err, &path) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
