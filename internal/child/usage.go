package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Times is processor time.
type Times struct {
	User, Kernel time.Duration
}

// Sum is both together.
func (t Times) Sum() time.Duration { return t.User + t.Kernel }

// Sub is what was spent between before and t.
func (t Times) Sub(before Times) Times {
	return Times{User: t.User - before.User, Kernel: t.Kernel - before.Kernel}
}

// Tick is the unit of processor time in /proc/PID/stat: USER_HZ, which is 100 on every Linux.
const Tick = time.Second / 100

var errProc = errors.New("child: /proc is not as proc(5) has it")

// Times is the processor time that the process has used, in steps of 10 ms.
func (p *Process) Times() (Times, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return Times{}, err
	}
	return parseStat(text)
}

// parseStat reads utime and stime. The second field is the command's name in parentheses, which may hold
// anything.
func parseStat(text []byte) (Times, error) {
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return Times{}, errProc
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	kernel, err2 := strconv.ParseInt(fields[12], 10, 64)
	return Times{User: time.Duration(user) * Tick, Kernel: time.Duration(kernel) * Tick}, errors.Join(err1, err2)
}

// Memory is what the process has in its resident set, in bytes.
type Memory struct {
	Now, Peak int64
}

// Memory reads the process's memory.
func (p *Process) Memory() (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return Memory{}, err
	}
	return parseMemory(text)
}

// Readable fails where a process's time and memory cannot be read.
func Readable() error {
	text, err := os.ReadFile("/proc/self/status")
	if err == nil {
		_, err = parseMemory(text)
	}
	return err
}

func parseMemory(text []byte) (Memory, error) {
	now, err1 := parseSize(text, "VmRSS:")
	peak, err2 := parseSize(text, "VmHWM:")
	return Memory{Now: now, Peak: peak}, errors.Join(err1, err2)
}

func parseSize(text []byte, name string) (int64, error) {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, errProc
}
