package cputime_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/tarn-go/tarn/internal/cputime"
)

// TestSession counts a process that is the only one of its session, with its thread group's clock: more once it has
// worked, and never more of the kernel's than a tick beyond all.
func TestSession(t *testing.T) {
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo; read line")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has worked
		t.Fatal(err)
	}
	s, err := cputime.Session(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if s.All <= 0 {
		t.Errorf("a process that has worked has spent %v", s.All)
	}
	if _, err := cputime.Session(1 << 30); err == nil {
		t.Error("a session without processes was found")
	}
	var sum cputime.Spent
	sum.Add(s)
	sum.Add(cputime.Own())
	if d := sum.Sub(s); d.All <= 0 || d.Kernel < 0 {
		t.Errorf("this process has spent %v", d)
	}
}
