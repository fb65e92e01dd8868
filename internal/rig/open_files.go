package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
)

// OpenFiles asks smbstatus, which comes with smbd (Debian: samba-common-bin), which files the server holds open, and which it holds
// locked ranges of, each once for every handle.
func (s *Server) OpenFiles() ([]string, error) {
	smbstatus, err := find("smbstatus")
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(smbstatus, "-s", s.conf(), "--json", "--locks", "--byterange").Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("rig: smbstatus: %w", err)
	}
	var status struct {
		OpenFiles map[string]struct {
			Filename string         `json:"filename"`
			Opens    map[string]any `json:"opens"`
		} `json:"open_files"`
		Locks map[string]any `json:"byte_range_locks"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return nil, fmt.Errorf("rig: smbstatus: %w in %s", err, out)
	}
	var names []string
	for _, file := range status.OpenFiles {
		for range file.Opens {
			names = append(names, file.Filename)
		}
	}
	for name := range status.Locks {
		names = append(names, "lock of "+name)
	}
	slices.Sort(names)
	return names, nil
}
