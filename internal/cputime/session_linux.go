package cputime

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Session returns what those processes of a session have spent that are there now. id is that of the process which
// leads the session.
func Session(id int) (Spent, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return Spent{}, err
	}
	var sum Spent
	found := false
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// After the command's name, which is in parentheses and may contain anything: state, parent, group, session;
		// stime is the 13th field from there (proc(5)).
		fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
		if len(fields) < 13 || string(fields[3]) != strconv.Itoa(id) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return Spent{}, err
		}
		ticks, err := strconv.ParseInt(string(fields[12]), 10, 64)
		if err != nil {
			return Spent{}, err
		}
		var all unix.Timespec
		if unix.ClockGettime(processClock(pid), &all) != nil {
			continue
		}
		found = true
		sum.Add(Spent{time.Duration(all.Nano()), time.Duration(ticks) * (time.Second / ticksPerSecond)})
	}
	if !found {
		return Spent{}, fmt.Errorf("cputime: no process of session %d", id)
	}
	return sum, nil
}

// ticksPerSecond is the unit of times in /proc, which is the same on all architectures that Go supports.
const ticksPerSecond = 100

// processClock is the clock of all threads of a process, those that have ended included (clock_getcpuclockid(3)).
func processClock(pid int) int32 { return int32(^pid)<<3 | 2 }
