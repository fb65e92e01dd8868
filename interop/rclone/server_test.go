package rclone

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rclone/rclone/fs/config/obscure"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

// remote begins the variables of the environment that configure the remote.
const remote = "RCLONE_CONFIG_TARNRIG_"

// server is a Samba server that is configured in rclone as the remote "tarnrig".
type server struct {
	share, dir string
	environ    []string
}

func startServer(t testing.TB, mode rig.Mode) *server {
	t.Helper()
	s := rigtest.Start(t, rig.Config{Mode: mode})
	return configure(t, s, s.Addr)
}

// configure is the configuration of a remote that is reached at addr.
func configure(t testing.TB, s *rig.Server, addr string) *server {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "rclone.conf")
	if err := os.WriteFile(conf, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return &server{
		share: "tarnrig:" + s.Share, dir: s.Dir,
		environ: append(os.Environ(), "RCLONE_CONFIG="+conf, remote+"ALLOW_UNSIGNED=true", remote+"HOST="+host, remote+"PORT="+port,
			remote+"USER="+s.User, remote+"PASS="+obscure.MustObscure(s.Password)),
	}
}

// env is the environment of a program with the SMB backend of v.
func (s *server) env(v variant) []string {
	return append(slices.Clip(s.environ), remote+"TYPE="+v.backend())
}
