package smb2_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
)

func TestMapping(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{Mode: rig.Plain})
	s, _ := dial(t, srv)
	for name, c := range map[string]struct {
		option smb2.MountOption
		disk   string
	}{
		"mapposix": {smb2.WithMapPosix(), "a\uf022b\uf025\uf001\uf028"},
		"mapchars": {smb2.WithMapChars(), "a\uf03ab\uf03f"},
	} {
		t.Run(name, func(t *testing.T) {
			share, err := s.Mount(srv.Share, c.option)
			must(t, err)
			file := "a:b?"
			if name == "mapposix" {
				file += "\x01 "
			}
			must(t, share.WriteFile(file, []byte("x"), 0o666))
			if _, err := os.Stat(filepath.Join(srv.Dir, c.disk)); err != nil {
				t.Error(err)
			}
			list, err := share.ReadDir("")
			must(t, err)
			if len(list) != 1 || list[0].Name() != file {
				t.Errorf("%q", list[0].Name())
			}
			if b, err := share.ReadFile(file); string(b) != "x" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			must(t, share.Remove(file))
			must(t, share.Umount())
		})
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{`a*`, `abc`, true}, {`a*`, `a\b`, false}, {`a\*`, `a\b`, true}, {`a/?`, `a\b`, true},
		{`[^a]b`, `xb`, true}, {`[a-c]`, `b`, true}, {`a`, `b`, false},
	} {
		if got, err := smb2.Match(c.pattern, c.name); got != c.want || err != nil {
			t.Errorf("Match(%q, %q) = %v, %v", c.pattern, c.name, got, err)
		}
	}
	if _, err := smb2.Match("[", "a"); err != smb2.ErrBadPattern {
		t.Error(err)
	}
}
