// Package child runs a server in a separate process, so that the processor time and memory of that process
// are the server's alone. The child prints its address as its first line and serves until its standard input
// ends. Linux only: processor time and memory are read from /proc.
package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Process is a server that runs. Its methods may be called by one goroutine at a time.
type Process struct {
	// Addr is what the process printed as its first line.
	Addr string

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// Start runs cmd and waits for its address. Its standard error is this process's.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd}
	cmd.Stderr = os.Stderr
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if p.Addr, err = p.line(); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// Self is a command that runs the program of this process with other arguments.
func Self(args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(path, args...), nil
}

// Ask sends the process an empty line and returns the line that it answers with.
func (p *Process) Ask() (string, error) {
	if _, err := fmt.Fprintln(p.in); err != nil {
		return "", err
	}
	return p.line()
}

func (p *Process) line() (string, error) {
	if p.out.Scan() {
		return p.out.Text(), nil
	}
	if err := p.out.Err(); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%s ended without a line of output", p.cmd.Path)
}

// Close ends the process's standard input and waits for its end. The error is that of the process.
func (p *Process) Close() error {
	p.in.Close()
	return p.cmd.Wait()
}

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	p.in.Close()
	// A process that has ended already cannot be killed, and one that was killed has failed.
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
