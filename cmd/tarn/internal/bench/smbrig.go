package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// rigPackage is the command that runs a Samba server for tests. It is internal to package smb, so it
// is built and run rather than linked, which also keeps package testing out of this program.
const rigPackage = "github.com/tarn-go/tarn/smb/internal/rig/cmd"

// smbRig is that command, built.
type smbRig struct{ dir string }

// buildSMBRig builds the command. Its error is a leftOut where there is no Samba, or no repository to
// build from.
func buildSMBRig(ctx context.Context) (*smbRig, error) {
	if _, err := exec.LookPath("smbd"); err != nil {
		if _, err := os.Stat("/usr/sbin/smbd"); err != nil {
			return nil, leftOut("Left out: smbd is not installed (Debian: samba).")
		}
	}
	dir, err := os.MkdirTemp("", "tarn-bench-smb-")
	if err != nil {
		return nil, err
	}
	r := &smbRig{dir}
	out, err := exec.CommandContext(ctx, "go", "build", "-o", r.command(), rigPackage).CombinedOutput()
	if err == nil {
		return r, nil
	}
	r.remove()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reason, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if reason == "" {
		reason = err.Error()
	}
	return nil, leftOut("Left out: the server for it is built with go from Tarn's repository: " + reason)
}

func (r *smbRig) command() string { return filepath.Join(r.dir, "rig") }

func (r *smbRig) remove() { os.RemoveAll(r.dir) }

// smbServer is a running Samba server.
type smbServer struct {
	addr, user, password, share, dir string

	cmd *exec.Cmd
	in  io.Closer
	out io.Reader
}

// start runs a server whose messages are plain, signed or encrypted.
func (r *smbRig) start(ctx context.Context, mode string) (*smbServer, error) {
	cmd := exec.CommandContext(ctx, r.command(), "-mode", mode)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Cancelled, it is asked to end, and so stops its own children.
	cmd.Cancel = in.Close
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &smbServer{cmd: cmd, in: in, out: out}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("the server did not start: %s", strings.TrimSpace(complaint.String()))
	}
	for _, field := range strings.Fields(line) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "SMB_ADDR":
			s.addr = value
		case "SMB_USER":
			s.user = value
		case "SMB_PASSWORD":
			s.password = value
		case "SMB_SHARE":
			s.share = value
		case "SMB_DIR":
			s.dir = value
		}
	}
	return s, nil
}

func (s *smbServer) stop() {
	s.in.Close()
	io.Copy(io.Discard, s.out)
	s.cmd.Wait()
}

// smbClient is the path of Samba's own client.
type smbClient string

func findSMBClient() (smbClient, bool) {
	path, err := exec.LookPath("smbclient")
	return smbClient(path), err == nil
}

// get fetches a file to nowhere and returns the bytes a second that smbclient says it took, which
// leave out its start and login.
func (c smbClient) get(ctx context.Context, s *smbServer, name string) (float64, error) {
	host, port, _ := strings.Cut(s.addr, ":")
	cmd := exec.CommandContext(ctx, string(c), "//"+host+"/"+s.share, "-p", port, "-U", s.user, "-m", "SMB3",
		"-c", "get "+name+" "+os.DevNull)
	cmd.Env = append(os.Environ(), "PASSWD="+s.password, "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return smbClientRate(string(out))
}

// smbClientRate finds the rate in "getting file \f of size N as F (123.4 KiloBytes/sec) (average ...".
func smbClientRate(out string) (float64, error) {
	if before, _, ok := strings.Cut(out, " KiloBytes/sec)"); ok {
		if i := strings.LastIndexByte(before, '('); i >= 0 {
			kib, err := strconv.ParseFloat(before[i+1:], 64)
			return kib * 1024, err
		}
	}
	return 0, errors.New("smbclient names no rate: " + strings.TrimSpace(out))
}
