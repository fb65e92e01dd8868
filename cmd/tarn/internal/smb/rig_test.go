package smb

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// server is a Samba server whose password is in this process's environment.
type server struct{ *rig.Server }

func startServer(t *testing.T, cfg rig.Config) server {
	t.Helper()
	s := server{rigtest.Start(t, cfg)}
	t.Setenv("SMB_PASSWORD", s.Password)
	return s
}

// eachMode runs use with a server of each mode. The short form runs it with one, which the test's name decides.
func eachMode(t *testing.T, use func(t *testing.T, s server)) {
	t.Helper()
	modes := rig.Modes()
	if testing.Short() {
		n := crc32.ChecksumIEEE([]byte(t.Name())) % uint32(len(modes))
		modes = modes[n : n+1]
	}
	for _, mode := range modes {
		t.Run(mode.Name(), func(t *testing.T) { use(t, startServer(t, rig.Config{Mode: mode})) })
	}
}

// url is the URL of a path on the server's share.
func (s server) url(path string) string {
	return "smb://" + s.User + "@" + s.Addr + "/" + s.Share + "/" + path
}

// write makes files, and the directories that they are in.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
