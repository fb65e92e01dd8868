package rclone

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rclone/rclone/fs/config/obscure"

	"github.com/tarn-go/tarn/internal/leftout"
)

// server is a Samba server of the repository's rig, which rclone knows as the remote "tarnrig".
type server struct {
	share, dir string
	env        []string
}

func startServer(t *testing.T, mode string) *server {
	t.Helper()
	leftout.Need(t, "samba, samba-common-bin", "smbd", "pdbedit")
	bin := filepath.Join(shop(t).dir, "rig")
	build := exec.Command("go", "build", "-o", bin, "./smb/internal/rig/cmd")
	build.Dir, build.Env = "../..", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the rig: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, "-mode", mode)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the rig stops its server when its input ends
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the rig: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the rig prints no address: %v", err)
	}
	known := map[string]string{}
	for field := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(field, "=")
		known[name] = value
	}
	return newServer(t, known)
}

func newServer(t *testing.T, known map[string]string) *server {
	t.Helper()
	host, port, err := net.SplitHostPort(known["SMB_ADDR"])
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "rclone.conf")
	if err := os.WriteFile(conf, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const remote = "RCLONE_CONFIG_TARNRIG_"
	return &server{
		share: "tarnrig:" + known["SMB_SHARE"], dir: known["SMB_DIR"],
		env: append(os.Environ(), "RCLONE_CONFIG="+conf, remote+"TYPE=smb", remote+"HOST="+host, remote+"PORT="+port,
			remote+"USER="+known["SMB_USER"], remote+"PASS="+obscure.MustObscure(known["SMB_PASSWORD"])),
	}
}
