//go:build !unix

package rig

import (
	"os"
	"os/exec"
)

// Samba runs on unix alone: elsewhere Available is false, and these are never reached
// with more than one process to end.

func ownSession(*exec.Cmd) {}

func killSession(pid int) { killProcess(pid) }

func killProcess(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		p.Kill()
	}
}
