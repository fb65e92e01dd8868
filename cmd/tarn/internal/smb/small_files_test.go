//go:build unix

package smb

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// A small file is one frame each way, however it is copied; with -flush it is flushed, too.
func TestFramesOfSmallFiles(t *testing.T) {
	s := startServer(t, rig.Config{})
	r := startRelay(t, s.Addr)
	s.Addr = r.addr
	src := filepath.Join(t.TempDir(), "src")
	const files = 100
	content := map[string]string{}
	for i := range files {
		content[fmt.Sprintf("f%d", i)] = "some text"
	}
	write(t, src, content)
	// Login, mount, directory and time, and the end.
	const besides = 20
	for _, c := range []struct {
		args  []string
		each  int // frames for each file, at most
		flush int // FLUSH requests
	}{
		{[]string{"put", "-r", src, s.url("a")}, 1, 0},
		{[]string{"put", "-r", "-flush", src, s.url("b")}, 8, files},
		{[]string{"get", "-r", s.url("a"), filepath.Join(t.TempDir(), "a")}, 1, 0},
	} {
		must(t, c.args...)
		frames, commands := r.take()
		if frames > c.each*files+besides || commands[commandFlush] != c.flush || commands[commandCreate] < files {
			t.Errorf("%v: %d frames, commands %v", c.args[:2], frames, commands)
		}
	}
}
