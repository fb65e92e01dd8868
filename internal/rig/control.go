package rig

import (
	"fmt"
	"os/exec"
)

// Control sends a message to the server's processes with smbcontrol, which comes with smbd (Debian: samba-common-bin), such as
// "close-share" and a name. It does not wait until they have acted on it.
func (s *Server) Control(message ...string) error {
	smbcontrol, err := find("smbcontrol")
	if err != nil {
		return err
	}
	args := append([]string{"-s", s.conf(), "smbd"}, message...)
	if out, err := exec.Command(smbcontrol, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("rig: smbcontrol %v: %w: %s", message, err, out)
	}
	return nil
}
