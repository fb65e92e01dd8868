package rclone

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/fs/config/obscure"
	"github.com/rclone/rclone/fstest/fstests"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
)

func TestMain(m *testing.M) {
	Register()
	os.Exit(m.Run())
}

// remote is a share of a server that rclone knows as the remote "tarnrig", until the test ends.
func remote(t testing.TB, mode rig.Mode, options map[string]string) (path, dir string) {
	t.Helper()
	path, srv := serve(t, rig.Config{Mode: mode}, options)
	return path, srv.Dir
}

// serve is remote, with the server.
func serve(t testing.TB, cfg rig.Config, options map[string]string) (path string, srv *rig.Server) {
	t.Helper()
	s := rigtest.Start(t, cfg)
	return configure(t, s, options), s
}

// configure makes a server's share the remote "tarnrig".
func configure(t testing.TB, s *rig.Server, options map[string]string) (path string) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "rclone.conf")
	if err := os.WriteFile(conf, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RCLONE_CONFIG", conf)
	for key, value := range map[string]string{"TYPE": Type, "HOST": host, "PORT": port, "USER": s.User, "PASS": obscure.MustObscure(s.Password)} {
		t.Setenv("RCLONE_CONFIG_TARNRIG_"+key, value)
	}
	for key, value := range options {
		t.Setenv("RCLONE_CONFIG_TARNRIG_"+key, value)
	}
	return "tarnrig:" + s.Share
}

// TestSuite is rclone's own suite for backends, against Samba in plain, signed and encrypted sessions.
func TestSuite(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			inRcloneSource(t)
			path, _ := remote(t, mode, map[string]string{"ALLOW_UNSIGNED": "true"})
			fstests.Run(t, &fstests.Opt{RemoteName: path + "/rclone", NilObject: (*Object)(nil)})
		})
	}
}

// TestSuitePOSIX is the suite with the POSIX extensions and with links.
func TestSuitePOSIX(t *testing.T) {
	srv := rigtest.StartPOSIX(t, "../..", rig.Config{Share: []string{"mangled names = no"}})
	inRcloneSource(t)
	path := configure(t, srv, map[string]string{"POSIX": "true", "LINKS": "true"})
	fstests.Run(t, &fstests.Opt{RemoteName: path + "/rclone", NilObject: (*Object)(nil)})
}

// inRcloneSource makes the working directory one that the suite takes for rclone's source: it looks there for its own servers.
func inRcloneSource(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "fstest", "testserver", "init.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
}
