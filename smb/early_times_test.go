package smb_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
)

// TestEarlyTimes sets times that SMB cannot express, since 0 (1601-01-01) means "unchanged" in a request: each is refused instead of
// being reported as set, by both methods and for both times, and the file keeps what it has. A zero time leaves it unchanged.
func TestEarlyTimes(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		must(t, share.WriteFile("file", nil, 0o666))
		when := time.Unix(1_000_000_000, 0)
		must(t, share.Chtimes("file", when, when))
		f, err := share.OpenFile("file", os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		start := time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, early := range []time.Time{start, start.Add(99), start.Add(-time.Second), time.Time{}.Add(1), start.AddDate(-1000, 0, 0)} {
			for what, err := range map[string]error{
				"Share, last write":  share.Chtimes("file", time.Time{}, early),
				"Share, last access": share.Chtimes("file", early, time.Time{}),
				"File, last write":   f.Chtimes(when, early),
				"File, last access":  f.Chtimes(early, when),
			} {
				if !errors.Is(err, fs.ErrInvalid) {
					t.Errorf("%s, %v: %v", what, early, err)
				}
			}
		}
		must(t, f.Chtimes(time.Time{}, time.Time{}))
		fi, err := share.Stat("file")
		must(t, err)
		if !fi.ModTime().Equal(when) {
			t.Errorf("changed to %v", fi.ModTime())
		}
	})
}
