package rig

import (
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

//go:embed impacket.py
var impacketScript string

// debianPython is the Python that Debian's packages belong to.
const debianPython = "/usr/bin/python3"

// ErrNoImpacket is returned where this machine has no impacket.
var ErrNoImpacket = errors.New("rig: impacket is not installed")

// NewImpacket starts impacket's SMB server, which supports only dialect 2.0.2, with signing, and implements
// the protocol incompletely. It has one share and one user. The caller must call Stop.
func NewImpacket() (*Server, error) {
	if err := exec.Command(debianPython, "-c", "import impacket.smbserver").Run(); err != nil {
		return nil, ErrNoImpacket
	}
	root, err := os.MkdirTemp("", "tarnimpacket")
	if err != nil {
		return nil, err
	}
	s := &Server{User: "tarn", Password: "Tarn-rig-1", Share: "SHARE", Dir: filepath.Join(root, "data"), root: root}
	if err = s.startImpacket(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) startImpacket() error {
	for _, dir := range []string{"data", "log"} {
		if err := os.Mkdir(filepath.Join(s.root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := s.reserve(); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(s.root, "log", "stdout"))
	if err != nil {
		return err
	}
	defer out.Close()
	s.cmd = exec.Command(debianPython, "-c", impacketScript, strconv.Itoa(s.port.Number()), s.Dir, s.User, s.Password, s.Share)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.run(); err != nil {
		return err
	}
	return s.awaitAnswer()
}
