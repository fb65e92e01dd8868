// Package rig runs real Samba servers for tests and benchmarks: each one a child process on a free
// loopback port, with its files in a temporary directory, stopped and removed at the end.
//
// It needs smbd and pdbedit (Debian: samba, samba-common-bin). As root it serves daemon, an unprivileged
// user that every unix has; otherwise the SMB user is the user that runs it. Tests start
// servers with package rigtest; `go run ./internal/rig/cmd` runs one for manual use.
package rig

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/internal/freeport"
)

// Mode is how a server protects its messages.
type Mode string

// Modes of a server.
const (
	Plain     Mode = "server signing = auto"
	Signed    Mode = "server signing = mandatory"
	Encrypted Mode = "server smb encrypt = required"
)

// Name is the mode in one word, for the names of tests.
func (m Mode) Name() string {
	switch m {
	case Signed:
		return "signed"
	case Encrypted:
		return "encrypted"
	}
	return "plain"
}

// Modes are all of them.
func Modes() []Mode { return []Mode{Plain, Signed, Encrypted} }

// Config is what differs between servers.
type Config struct {
	Mode   Mode     // "": Plain
	Global []string // further lines for [global]: "smb2 max credits = 4"
	Share  []string // further lines for [share]
	Shares []string // further complete sections
	// Unpacked is a folder into which Debian's packages of another release of Samba have been unpacked, whose smbd is run; "": the one that
	// is installed.
	Unpacked string
}

// Server is a running server.
type Server struct {
	Addr     string // host:port
	User     string
	Password string
	Share    string // the writable share's name; "readonly" shows the same files
	Dir      string // the share's directory on this machine's disk

	cfg  Config
	root string
	port *freeport.Port
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// ErrMissing is returned where this machine has no Samba.
var ErrMissing = errors.New("rig: smbd or pdbedit is not installed")

// Available reports whether servers can be run here.
func Available() bool {
	_, err := find("smbd")
	_, err2 := find("pdbedit")
	return err == nil && err2 == nil
}

func find(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

// New starts a server. It is the caller's to Stop.
func New(cfg Config) (*Server, error) {
	if !Available() {
		return nil, ErrMissing
	}
	if cfg.Mode == "" {
		cfg.Mode = Plain
	}
	root, err := os.MkdirTemp("", "tarnsmb")
	if err != nil {
		return nil, err
	}
	s := &Server{Password: "Tarn-rig-1", Share: "share", Dir: filepath.Join(root, "data"), cfg: cfg, root: root}
	if err = s.prepare(); err == nil {
		err = s.Start()
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// prepare makes the directories and the SMB user, and reserves the port.
func (s *Server) prepare() error {
	me, err := user.Current()
	if err != nil {
		return err
	}
	s.User = me.Username
	if os.Geteuid() == 0 {
		// An account that exists: one made for the tests would be left behind, and another process that looks
		// while it is being made finds a user without a group.
		s.User = "daemon"
	}
	if err := os.Chmod(s.root, 0o755); err != nil {
		return err
	}
	for _, d := range []string{"private", "lock", "state", "cache", "pid", "ncalrpc", "log", "data"} {
		if err := os.Mkdir(filepath.Join(s.root, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(s.root, "private"), 0o700); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := s.Own(s.Dir); err != nil {
			return err
		}
	}
	if err := s.reserve(); err != nil {
		return err
	}
	if err := os.WriteFile(s.conf(), []byte(s.configuration()), 0o644); err != nil {
		return err
	}
	pdbedit, _ := find("pdbedit")
	add := exec.Command(pdbedit, "-s", s.conf(), "-a", "-t", "-u", s.User)
	add.Stdin = strings.NewReader(s.Password + "\n" + s.Password + "\n")
	if out, err := add.CombinedOutput(); err != nil {
		return fmt.Errorf("rig: pdbedit: %w: %s", err, out)
	}
	return nil
}

// Own gives a file on the server's disk to the user it serves.
func (s *Server) Own(path string) error {
	u, err := user.Lookup(s.User)
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return os.Chown(path, uid, gid)
}

// reserve reserves the server's port until Stop.
func (s *Server) reserve() (err error) {
	if s.port, err = freeport.Reserve(); err == nil {
		s.Addr = s.port.Addr()
	}
	return err
}

func (s *Server) conf() string { return filepath.Join(s.root, "smb.conf") }

// Start starts the server again after Kill, on the same port and with the same files.
func (s *Server) Start() error {
	smbd, env, err := s.cfg.smbd()
	if err != nil {
		return ErrMissing
	}
	out, err := os.Create(filepath.Join(s.root, "log", "stdout"))
	if err != nil {
		return err
	}
	defer out.Close()
	s.cmd = exec.Command(smbd, "-F", "--no-process-group", "-s", s.conf())
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env = out, out, env
	if err := s.run(); err != nil {
		return err
	}
	if err := s.awaitAnswer(); err != nil {
		return err
	}
	return s.awaitShare()
}

// smbd is the program to run and its environment; nil: that of this process.
func (c *Config) smbd() (program string, env []string, err error) {
	if c.Unpacked == "" {
		program, err = find("smbd")
		return program, nil, err
	}
	libraries, err := filepath.Glob(filepath.Join(c.Unpacked, "usr", "lib", "*-linux-gnu"))
	if err != nil || len(libraries) != 1 {
		return "", nil, ErrMissing
	}
	program, err = exec.LookPath(filepath.Join(c.Unpacked, "usr", "sbin", "smbd"))
	path := libraries[0] + ":" + filepath.Join(libraries[0], "samba")
	return program, append(os.Environ(), "LD_LIBRARY_PATH="+path), err
}

// run starts the server's process.
func (s *Server) run() error {
	ownSession(s.cmd)
	cmd, done := s.cmd, make(chan struct{})
	if err := cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	s.done = done
	go func() { cmd.Wait(); close(done) }()
	return nil
}

// awaitAnswer polls the port: smbd has no other way to say that it is ready.
func (s *Server) awaitAnswer() error {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(20 * time.Second)
	for {
		if c, err := net.Dial("tcp", s.Addr); err == nil {
			c.Close()
			return nil
		}
		select {
		case <-poll.C:
		case <-s.done:
			return fmt.Errorf("rig: the server ended at once:\n%s", s.Log())
		case <-limit:
			s.Kill()
			return fmt.Errorf("rig: the server does not answer:\n%s", s.Log())
		}
	}
}

// PID is the id of the server's process, and of the session of all its processes.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Kill ends the server and its children at once, as a crash would.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	killSession(s.cmd.Process.Pid)
	<-s.done
	s.killHelper()
	s.cmd = nil
}

// killHelper ends the RPC helper, which lists the shares and outlives smbd.
func (s *Server) killHelper() {
	b, err := os.ReadFile(filepath.Join(s.root, "pid", "samba-dcerpcd.pid"))
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return
	}
	// Only if it belongs to this server: the number may belong to another process by now.
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err == nil && bytes.Contains(line, []byte(s.conf())) {
		killProcess(pid)
	}
}

// Stop ends the server and removes its files.
func (s *Server) Stop() {
	s.Kill()
	if s.port != nil {
		s.port.Release()
	}
	os.RemoveAll(s.root)
}

// Log is the end of what the server wrote to its logs.
func (s *Server) Log() string {
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(s.root, "log", "*"))
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil {
			fmt.Fprintf(&all, "--- %s\n%s", filepath.Base(name), b[max(0, len(b)-4000):])
		}
	}
	return all.String()
}
