package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

const (
	// attackFor bounds an attack in time, should the server be slow to take it in.
	attackFor = 10 * time.Second
	// callTimeout is the deadline of a healthy call: one that misses it counts as failed.
	callTimeout = 20 * time.Second
)

// measure starts a server and mounts a on it with so many steps.
func measure(self, name string, a attack, ops int) (cost, error) {
	cmd := exec.Command(self, "serve", name)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return cost{}, err
	}
	stdin, err := cmd.StdinPipe() // its end ends the server
	if err != nil {
		return cost{}, err
	}
	if err := cmd.Start(); err != nil {
		return cost{}, err
	}
	defer func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	}()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return cost{}, fmt.Errorf("the server did not start: %w", err)
	}
	addr = strings.TrimSpace(addr)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return cost{}, err
	}
	defer cc.Close()
	h := &healthy{client: pb.NewTestServiceClient(cc), done: make(chan struct{})}
	if err := h.call(); err != nil {
		return cost{}, err
	}
	go h.run(ctx)
	before, err := processorTime(cmd.Process.Pid)
	if err != nil {
		return cost{}, err
	}
	conns := 0
	if a.calls != nil {
		err = a.calls(h.client, ops)
	} else {
		conns, err = a.mount(addr, ops)
	}
	if err != nil {
		return cost{}, err
	}
	after, err := processorTime(cmd.Process.Pid)
	if err != nil {
		return cost{}, err
	}
	peak, err := peakMemory(cmd.Process.Pid)
	if err != nil {
		return cost{}, err
	}
	cancel()
	<-h.done
	return cost{peak, after - before, conns, h.calls, h.failed, h.firstErr}, nil
}

// healthy makes small calls beside an attack, one every few milliseconds.
type healthy struct {
	client        pb.TestServiceClient
	calls, failed int
	firstErr      error
	done          chan struct{}
}

func (h *healthy) call() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := h.client.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}})
	return err
}

func (h *healthy) run(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		h.calls++
		if err := h.call(); err != nil {
			h.failed++
			if h.firstErr == nil {
				h.firstErr = err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tick is the unit of processor time in /proc/PID/stat: USER_HZ, which is 100 on every Linux.
const tick = time.Second / 100

var errProc = errors.New("attack: /proc is not as expected")

// processorTime is what the system accounts to a process, user and system together.
func processorTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the command's name in parentheses, which may hold anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 13 {
		return 0, errProc
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// peakMemory is the most memory in bytes that a process has had in its resident set.
func peakMemory(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, errProc
}
