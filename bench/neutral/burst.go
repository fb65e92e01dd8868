package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// burst prints a server's resident memory before and ten seconds after 256 calls of size bytes on 64 streams of one
// connection, as a benchmark's line.
func burst(dir string, c contestant, size int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s, err := start(ctx, c)
	if err != nil {
		return err
	}
	defer s.stop()
	load := load{dir: dir, addr: s.addr, size: 100, conns: 1, streams: 64, calls: 256}
	if err := h2load(ctx, load); err != nil {
		return err
	}
	base, err := status(s.cmd.Process.Pid, "VmRSS:")
	if err != nil {
		return err
	}
	load.size = size
	if err := h2load(ctx, load); err != nil {
		return err
	}
	time.Sleep(10 * time.Second)
	after, err := status(s.cmd.Process.Pid, "VmRSS:")
	if err != nil {
		return err
	}
	peak, err := status(s.cmd.Process.Pid, "VmHWM:")
	if err != nil {
		return err
	}
	fmt.Printf("BenchmarkBurst/size=%d/peer=%s \t%8d\t%12d base-B\t%12d peak-B\t%12d after-B\t%8.2f after/base\n",
		size, c.name, load.calls, base, peak, after, float64(after)/float64(base))
	return nil
}

// status is one of a process's figures in bytes.
func status(pid int, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/%d/status", name, pid)
}
