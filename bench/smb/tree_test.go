package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/internal/turn"
)

// treeFiles is how many files of smallBytes are copied.
const treeFiles = 1000

// BenchmarkTree compares the command `tarn smb` with smbclient: each run of a program copies 1,000 files of
// 4 KiB, logging on included. Files lie in memory at both ends, where there is a /dev/shm. cpu-ns/op is
// the processor time of the program, without the server's.
func BenchmarkTree(b *testing.B) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		b.Setenv("TMPDIR", "/dev/shm")
	}
	dir := b.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	tarn := filepath.Join(dir, "tarn")
	build := exec.Command("go", "build", "-o", tarn, ".")
	build.Dir, build.Env = filepath.Join("..", "..", "cmd", "tarn"), append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building tarn: %v\n%s", err, out)
	}
	b.Setenv("XDG_CACHE_HOME", dir)
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range treeFiles {
		if err := os.WriteFile(filepath.Join(source, fmt.Sprintf("%05d", i)), make([]byte, smallBytes), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, mode := range rig.Modes() {
		srv := rigtest.Start(b, rig.Config{Mode: mode})
		makeFiles(b, srv, "source", treeFiles, smallBytes)
		for _, rtt := range []time.Duration{0, 2 * time.Millisecond} {
			addr := srv.Addr
			if rtt > 0 {
				if mode != rig.Plain {
					continue // smbclient takes ten seconds for each
				}
				addr = rigtest.Delay(b, addr, rtt/2)
			}
			w := treeWork{srv: srv, mode: mode, addr: addr, source: source}
			for _, op := range []string{"get", "put"} {
				for _, p := range turn.Order(treePeer{"tarn", w.tarn(tarn)}, treePeer{"smbclient", w.smbclient}) {
					b.Run(fmt.Sprintf("mode=%s/rtt=%v/op=%s/peer=%s", mode.Name(), rtt, op, p.name), func(b *testing.B) {
						w.run(b, op, p.command)
					})
				}
			}
		}
	}
}

type treePeer struct {
	name    string
	command func(op, target string) *exec.Cmd
}

// treeWork is where from and where to.
type treeWork struct {
	srv    *rig.Server
	mode   rig.Mode
	addr   string
	source string
}

func (w treeWork) tarn(binary string) func(op, target string) *exec.Cmd {
	return func(op, target string) *exec.Cmd {
		url := "smb://" + w.srv.User + "@" + w.addr + "/" + w.srv.Share + "/"
		from, to := url+"source", target
		if op == "put" {
			from, to = w.source, url+target
		}
		cmd := exec.Command(binary, "smb", op, "-q", "-r", "-T", from, to)
		cmd.Env = append(os.Environ(), "SMB_PASSWORD="+w.srv.Password)
		return cmd
	}
}

func (w treeWork) smbclient(op, target string) *exec.Cmd {
	host, port, _ := net.SplitHostPort(w.addr)
	script := fmt.Sprintf("recurse ON; prompt OFF; cd source; lcd %s; mget *", target)
	if op == "put" {
		script = fmt.Sprintf("recurse ON; prompt OFF; mkdir %s; cd %[1]s; lcd %s; mput *", target, w.source)
	}
	return exec.Command("smbclient", "//"+host+"/"+w.srv.Share, "-p", port, "-U", w.srv.User+"%"+w.srv.Password,
		"--client-protection="+protection(w.mode), "-c", script)
}

// protection is smbclient's word for a mode.
func protection(mode rig.Mode) string {
	return map[rig.Mode]string{rig.Plain: "off", rig.Signed: "sign", rig.Encrypted: "encrypt"}[mode]
}

// run runs a program each time with a new target, which is checked and removed.
func (w treeWork) run(b *testing.B, op string, command func(op, target string) *exec.Cmd) {
	if _, err := exec.LookPath("smbclient"); err != nil {
		b.Skip("smbclient is not installed")
	}
	var used time.Duration
	b.SetBytes(treeFiles * smallBytes)
	for b.Loop() {
		b.StopTimer()
		target := b.TempDir()
		there := target
		if op == "put" {
			target = "put"
			there = filepath.Join(w.srv.Dir, target)
		}
		cmd := command(op, target)
		b.StartTimer()
		out, err := cmd.CombinedOutput()
		b.StopTimer()
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if made, err := os.ReadDir(there); err != nil || len(made) != treeFiles {
			b.Fatalf("%d files, %v: %s", len(made), err, out)
		}
		if err := os.RemoveAll(there); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
}
