//go:build unix

package smb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	client "github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/tarntest"
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

// TestServerCopyKeepsHoles has the server copy a file that is nearly all hole, to a new name and over another file.
func TestServerCopyKeepsHoles(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			s := startServer(t, rig.Config{Mode: mode})
			const size = 32 << 20
			name := filepath.Join(s.Dir, "sparse")
			writeSparse(t, s, "sparse", size)
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, s.Dir, map[string]string{"other": strings.Repeat("0123456789abcdef", 200_000)})
			if err := s.Own(filepath.Join(s.Dir, "other")); err != nil {
				t.Fatal(err)
			}
			for _, to := range []string{"copy", "other"} {
				must(t, "cp", s.url("sparse"), s.url(to))
				if got, err := os.ReadFile(filepath.Join(s.Dir, to)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s has other content: %v", to, err)
				}
				if n := onDiskBytes(t, filepath.Join(s.Dir, to)); n > size/8 {
					t.Errorf("%s has %d bytes on the disk", to, n)
				}
				back := filepath.Join(t.TempDir(), to)
				must(t, "get", s.url(to), back) // which finds the holes by the mark
				if n := onDiskBytes(t, back); n > size/8 {
					t.Errorf("%s has %d bytes on this machine's disk", to, n)
				}
			}
		})
	}
}

// writeSparse writes a file that is nearly all hole. Samba reports holes only of files that a client has marked as sparse.
func writeSparse(t *testing.T, s server, name string, size int64) {
	t.Helper()
	d := client.Dialer{Initiator: client.NTLM{User: s.User, Password: s.Password}, Pool: tarntest.NewPool(t)}
	session, err := d.Dial(t.Context(), s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	share, err := session.Mount(t.Context(), s.Share)
	if err != nil {
		t.Fatal(err)
	}
	f, err := share.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, failed := f.WriteAt([]byte("some data"), size/2)
	if err := errors.Join(f.SetSparse(), failed, f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// onDiskBytes is how many bytes of a disk a file occupies.
func onDiskBytes(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
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
