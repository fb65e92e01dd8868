//go:build unix

package smb

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
)

// TestServerCopyIsFlushed has the server copy files within a share: it gets no READ and no WRITE, and one FLUSH for each file. Its log
// names its requests, those of encrypted sessions, too.
func TestServerCopyIsFlushed(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode, Global: []string{"log level = 1 smb2:10"}})
			src := filepath.Join(t.TempDir(), "src")
			content := map[string]string{"empty": "", "small": "some text", "large": strings.Repeat("0123456789abcdef", 200_000)}
			write(t, src, content)
			must(t, "put", "-r", src, s.url("there"))
			before := requests(t, s)
			must(t, "cp", "-r", s.url("there"), s.url("copy"))
			after := requests(t, s)
			sameTree(t, src, filepath.Join(s.Dir, "copy"))
			for _, c := range []struct {
				name  string
				count int
			}{{"FLUSH", len(content)}, {"READ", 0}, {"WRITE", 0}} {
				if n := after[c.name] - before[c.name]; n != c.count {
					t.Errorf("%d %s requests, want %d", n, c.name, c.count)
				}
			}
		})
	}
}

// TestServerCannotCopy copies within a share of a server that supports no server-side copy: the command reads and writes. Samba
// always supports it, so the relay replaces the control code that asks for a copy's key by one that Samba does not know.
func TestServerCannotCopy(t *testing.T) {
	s := startServer(t, rig.Config{})
	r := startRelay(t, s.Addr, func(message []byte) {
		const requestResumeKey, unknown = 0x00140078, 0x00140ffc // FSCTL_SRV_REQUEST_RESUME_KEY (MS-SMB2 2.2.31)
		if binary.LittleEndian.Uint16(message[12:]) == commandIoctl && binary.LittleEndian.Uint32(message[68:]) == requestResumeKey {
			binary.LittleEndian.PutUint32(message[68:], unknown)
		}
	})
	through := func(path string) string { return "smb://" + s.User + "@" + r.addr + "/" + s.Share + "/" + path }
	src := filepath.Join(t.TempDir(), "src")
	write(t, src, map[string]string{"empty": "", "small": "some text", "large": strings.Repeat("0123456789abcdef", 200_000)})
	must(t, "put", "-r", src, s.url("there"))
	must(t, "cp", "-r", through("there"), through("copy"))
	_, sent := r.take()
	sameTree(t, src, filepath.Join(s.Dir, "copy"))
	if sent[commandIoctl] == 0 || sent[commandRead] == 0 || sent[commandWrite] == 0 {
		t.Errorf("requests by their commands: %v", sent)
	}
}

// requests counts the requests in the server's log by their names.
func requests(t *testing.T, s server) map[string]int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Dir(s.Dir), "log", "smbd.log*"))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		const before = "smbd_smb2_request_dispatch: opcode[SMB2_OP_"
		for line := range strings.Lines(string(b)) {
			if _, rest, ok := strings.Cut(line, before); ok {
				counts[rest[:strings.IndexByte(rest, ']')]]++
			}
		}
	}
	if counts["CREATE"] == 0 {
		t.Fatal("the server's log names no requests")
	}
	return counts
}
