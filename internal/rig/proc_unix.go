//go:build unix

package rig

import (
	"os/exec"
	"syscall"
)

// ownSession puts a command into a session of its own, so that stopping it takes its
// children too.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killSession ends the session that pid leads.
func killSession(pid int) { syscall.Kill(-pid, syscall.SIGKILL) }

// killProcess ends one process.
func killProcess(pid int) { syscall.Kill(pid, syscall.SIGKILL) }
