package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/tarn-go/tarn/internal/rig"
)

// smbClient is the path of Samba's own client.
type smbClient string

func findSMBClient() (smbClient, bool) {
	path, err := exec.LookPath("smbclient")
	return smbClient(path), err == nil
}

// get fetches a file, discards it, and returns the rate in bytes a second that smbclient reports, which
// leaves out its start and login.
func (c smbClient) get(ctx context.Context, s *rig.Server, name string) (float64, error) {
	host, port, _ := strings.Cut(s.Addr, ":")
	cmd := exec.CommandContext(ctx, string(c), "//"+host+"/"+s.Share, "-p", port, "-U", s.User, "-m", "SMB3",
		"-c", "get "+name+" "+os.DevNull)
	cmd.Env = append(os.Environ(), "PASSWD="+s.Password, "LC_ALL=C")
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
	return 0, errors.New("smbclient printed no rate: " + strings.TrimSpace(out))
}
