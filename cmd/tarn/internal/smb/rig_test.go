package smb

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
)

// server is a real Samba server: the rig of package smb, run as a command of its own,
// because its package is internal to smb.
type server struct {
	addr, user, password, share, dir string
	stop                             func() // may be called more than once
}

// rigDir is where the rig is built to, once for all tests.
var rigDir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tarnrig")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	rigDir = dir
	return m.Run()
}

// buildRig builds the rig when it is first wanted.
var buildRig = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(rigDir, "rig")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/tarn-go/tarn/smb/internal/rig/cmd").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building the rig: %w: %s", err, out)
	}
	return bin, err
})

func startServer(t *testing.T, args ...string) server {
	t.Helper()
	if _, err := os.Stat("/usr/sbin/smbd"); err != nil {
		if _, err := exec.LookPath("smbd"); err != nil {
			leftout.Skip(t, "smbd is not installed (Debian: samba)")
		}
	}
	bin, err := buildRig()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		in.Close() // it stops its server then
		io.Copy(io.Discard, out)
		cmd.Wait()
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the rig did not start: %v", err)
	}
	env := map[string]string{}
	for _, f := range strings.Fields(line) {
		k, v, _ := strings.Cut(f, "=")
		env[k] = v
	}
	t.Setenv("SMB_PASSWORD", env["SMB_PASSWORD"])
	return server{env["SMB_ADDR"], env["SMB_USER"], env["SMB_PASSWORD"], env["SMB_SHARE"], env["SMB_DIR"], stop}
}

// url is the URL of a path on the server's share.
func (s server) url(path string) string {
	return "smb://" + s.user + "@" + s.addr + "/" + s.share + "/" + path
}
