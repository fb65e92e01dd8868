package rclone

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rclone/rclone/fs/config/obscure"
	"github.com/willscott/go-nfs-client/nfs"
	"github.com/willscott/go-nfs-client/nfs/rpc"

	"github.com/tarn-go/tarn/internal/rig"
)

// TestServe serves a share by each protocol with the whole of rclone-tarn, and writes, reads, lists and removes through a client of the
// protocol: rclone's own backend for it, and sftp of OpenSSH; for NFS a client in Go.
func TestServe(t *testing.T) {
	if os.Getenv("TARN_LONG") != "1" {
		t.Skip("only with TARN_LONG=1: rclone's backends take minutes to compile")
	}
	program := wholeProgram(t)
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := startServer(t, mode)
			t.Run("sftp", func(t *testing.T) {
				addr := serve(t, srv, program, "sftp", "--user", "me", "--pass", "secret")
				host, port, err := net.SplitHostPort(addr)
				if err != nil {
					t.Fatal(err)
				}
				through(t, srv, program, "sftp", map[string]string{"TYPE": "sftp", "HOST": host, "PORT": port, "USER": "me", "PASS": obscure.MustObscure("secret"),
					"SHELL_TYPE": "none"})
			})
			t.Run("openssh", func(t *testing.T) { throughOpenSSH(t, srv, program) })
			t.Run("s3", func(t *testing.T) {
				url := serve(t, srv, program, "s3", "--auth-key", "access,secret")
				through(t, srv, program, "bucket", map[string]string{"TYPE": "s3", "PROVIDER": "Rclone", "ENDPOINT": url, "ACCESS_KEY_ID": "access", "SECRET_ACCESS_KEY": "secret"})
			})
			t.Run("webdav", func(t *testing.T) {
				url := serve(t, srv, program, "webdav")
				through(t, srv, program, "webdav", map[string]string{"TYPE": "webdav", "VENDOR": "rclone", "URL": url})
			})
			t.Run("nfs", func(t *testing.T) { throughNFS(t, srv, serve(t, srv, program, "nfs")) })
		})
	}
}

// wholeProgram builds rclone-tarn.
func wholeProgram(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(shop(t).dir, "rclone-tarn")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/rclone-tarn")
	cmd.Dir, cmd.Env = filepath.Join("..", "..", "smb", "rclone"), append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// started matches what rclone logs when it serves, and in it the URL or address.
var started = regexp.MustCompile(`http://127\.0\.0\.1:\d+/|(?:listening on|running at) (127\.0\.0\.1:\d+)`)

// serve serves the share by a protocol until the test ends, and returns the URL or the address.
func serve(t *testing.T, srv *server, binary, protocol string, args ...string) string {
	t.Helper()
	return serveRemote(t, srv.env(tarnsmb), srv.share, binary, protocol, args...)
}

// serveRemote is serve for any remote, which env configures.
func serveRemote(t *testing.T, env []string, remote, binary, protocol string, args ...string) string {
	t.Helper()
	args = append([]string{"serve", protocol, "--addr", "127.0.0.1:0", "--vfs-cache-mode", "writes", "--vfs-write-back", "0s", "--cache-dir", t.TempDir(), remote}, args...)
	cmd := exec.Command(binary, args...)
	cmd.Env = env
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var log []string
	found := make(chan string)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(found)
		for sent := false; lines.Scan(); {
			log = append(log, lines.Text())
			if m := started.FindStringSubmatch(lines.Text()); m != nil && !sent {
				sent = true
				found <- cmp.Or(m[1], m[0])
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-done
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", protocol, strings.Join(log[max(0, len(log)-100):], "\n"))
		}
	})
	addr, ok := <-found
	if !ok {
		t.Fatalf("%s serves nothing", filepath.Base(binary))
	}
	return addr
}

// sizes are those of the files that clients write.
var sizes = map[string]int{"empty": 0, "small": 5, "dir/some more": 300_000, "dir/below/large": 12 << 20}

// source is a directory with files of those sizes.
func source(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, size := range sizes {
		content := make([]byte, size)
		rand.Read(content)
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// through writes, reads, lists and removes by the backend of rclone that client configures.
func through(t *testing.T, srv *server, binary, dir string, client map[string]string) {
	t.Helper()
	env := append(os.Environ(), "RCLONE_CONFIG="+filepath.Join(t.TempDir(), "rclone.conf"))
	for key, value := range client {
		env = append(env, "RCLONE_CONFIG_CLIENT_"+key+"="+value)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.Env = env
		var log bytes.Buffer
		cmd.Stderr = &log
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, log.Bytes())
		}
		return string(out)
	}
	from, back, remote := source(t), t.TempDir(), "client:"+dir+"/copy"
	run("copy", from, remote)
	await(t, func() error { return sameTree(from, filepath.Join(srv.dir, dir, "copy")) })
	run("copy", remote, back)
	if err := sameTree(from, back); err != nil {
		t.Error(err)
	}
	names := strings.FieldsFunc(run("lsf", "-R", "--files-only", remote), func(r rune) bool { return r == '\n' })
	if got, want := sorted(names), sorted(keys(sizes)); !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
	run("deletefile", remote+"/small")
	await(t, func() error { return isGone(filepath.Join(srv.dir, dir, "copy", "small")) })
	run("purge", remote)
	await(t, func() error { return noFiles(filepath.Join(srv.dir, dir, "copy")) })
}

func keys(m map[string]int) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	return list
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// await waits until check succeeds: what was written through the cache of a server is uploaded when the client has gone on.
func await(t *testing.T, check func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal(err)
		}
	}
}

// sameTree compares the files below two directories.
func sameTree(a, b string) error {
	for name := range sizes {
		want, err := os.ReadFile(filepath.Join(a, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(b, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if !bytes.Equal(want, got) {
			return fmt.Errorf("%s differs", name)
		}
	}
	return nil
}

func isGone(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s is there", name)
	}
	return nil
}

// noFiles finds files below dir, which may not exist; a protocol without directories leaves them.
func noFiles(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		return fmt.Errorf("%s is there", name)
	})
}

// throughOpenSSH does the same with OpenSSH's client, and a key.
func throughOpenSSH(t *testing.T, srv *server, binary string) {
	sftp, err := exec.LookPath("sftp")
	if err != nil {
		t.Skip(err)
	}
	keyFile := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keyFile).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr := serve(t, srv, binary, "sftp", "--user", "me", "--authorized-keys", keyFile+".pub")
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	run := func(commands ...string) string {
		t.Helper()
		cmd := exec.Command(sftp, "-b", "-", "-P", port, "-i", keyFile, "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no",
			"-o", "UserKnownHostsFile=/dev/null", "me@"+host)
		cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
		var log bytes.Buffer
		cmd.Stderr = &log
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, log.Bytes())
		}
		return string(out)
	}
	from, back := source(t), t.TempDir()
	run("mkdir openssh", "put -r "+from+"/. openssh")
	await(t, func() error { return sameTree(from, filepath.Join(srv.dir, "openssh")) })
	run("get -r openssh/. " + back)
	if err := sameTree(from, back); err != nil {
		t.Error(err)
	}
	if listed := run("ls -1 openssh"); !strings.Contains(listed, "openssh/dir") || !strings.Contains(listed, "openssh/small") {
		t.Errorf("listed %q", listed)
	}
	run("rm openssh/small", "rename openssh/empty openssh/moved")
	await(t, func() error { return isGone(filepath.Join(srv.dir, "openssh", "small")) })
	await(t, func() error { return isGone(filepath.Join(srv.dir, "openssh", "empty")) })
	if listed := run("ls -1 openssh"); !strings.Contains(listed, "openssh/moved") || strings.Contains(listed, "openssh/small") {
		t.Errorf("listed %q", listed)
	}
}

// throughNFS does the same with a client of NFS 3.
func throughNFS(t *testing.T, srv *server, addr string) {
	c, err := rpc.DialTCP("tcp", addr, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mount := nfs.Mount{Client: c}
	target, err := mount.Mount("/", rpc.AuthNull)
	if err != nil {
		t.Fatal(err)
	}
	defer mount.Unmount()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	from := source(t)
	for _, dir := range []string{"nfs", "nfs/dir", "nfs/dir/below"} {
		_, err := target.Mkdir("/"+dir, 0o755)
		must(err)
	}
	for name := range sizes {
		content, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(name)))
		must(err)
		f, err := target.OpenFile("/nfs/"+name, 0o644)
		must(err)
		_, err = io.Copy(f, bytes.NewReader(content))
		must(err)
		must(f.Close())
	}
	await(t, func() error { return sameTree(from, filepath.Join(srv.dir, "nfs")) })
	for name := range sizes {
		want, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(name)))
		must(err)
		f, err := target.Open("/nfs/" + name)
		must(err)
		got, err := io.ReadAll(f)
		must(err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs", name)
		}
	}
	entries, err := target.ReadDirPlus("/nfs")
	must(err)
	var listed []string
	for _, e := range entries {
		if e.Name() != "." && e.Name() != ".." {
			listed = append(listed, e.Name())
		}
	}
	if want := []string{"dir", "empty", "small"}; !slices.Equal(sorted(listed), want) {
		t.Errorf("listed %q", listed)
	}
	must(target.Rename("/nfs/empty", "/nfs/moved"))
	must(target.Remove("/nfs/small"))
	must(target.RemoveAll("/nfs/dir"))
	for _, gone := range []string{"empty", "small", "dir"} {
		await(t, func() error { return isGone(filepath.Join(srv.dir, "nfs", gone)) })
	}
}
