//go:build unix

package rig

import (
	"os/exec"
	"syscall"
)

// ownSession starts a command in a new session, so that stopping it stops its children too.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killSession ends the session that pid leads.
func killSession(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }

// killProcess ends one process.
func killProcess(pid int) { syscall.Kill(pid, syscall.SIGKILL) }
