// Command neutral lets one client that is neither's, h2load, call one echo server after another and
// prints the processor time that each server takes a call, in the form of Go's benchmarks:
//
//	go run ./neutral                          tarn, tarn lending requests, grpc-go; 100 B, 16 KiB, 1 MiB
//	go run ./neutral -count 5 -size 16384     five turns of one size
//	go run ./neutral -others                  tonic and gRPC C++ as well, built here by cargo and g++
//
// A server is a process of its own; its time is what the system accounts to it between the first call and
// the last. Turns go over all servers before any is repeated, so that a slow spell of the machine does not
// fall upon one server alone. h2load is Debian's nghttp2-client; tonic comes from crates.io, gRPC C++ from
// Debian's libgrpc++-dev, libprotobuf-dev and protobuf-compiler-grpc.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		if err := serve(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "neutral:", err)
			os.Exit(1)
		}
		return
	}
	count := flag.Int("count", 3, "turns")
	size := flag.Int("size", 0, "payload in bytes; 0: 100 B, 16 KiB and 1 MiB")
	others := flag.Bool("others", false, "build and measure tonic and gRPC C++ as well")
	seconds := flag.Float64("seconds", 2, "about how long one measurement takes")
	flag.Parse()
	sizes := []int{100, 16 << 10, 1 << 20}
	if *size > 0 {
		sizes = []int{*size}
	}
	which := goAlone
	if *others {
		which = everyLanguage
	}
	if err := run(sizes, *count, *seconds, which); err != nil {
		fmt.Fprintln(os.Stderr, "neutral:", err)
		os.Exit(1)
	}
}

// languages says which servers are measured.
type languages int

const (
	goAlone       languages = iota
	everyLanguage           // those that cargo and g++ build as well
)

// contestant is a server: how it is started.
type contestant struct {
	name    string
	command []string
}

func run(sizes []int, count int, seconds float64, languages languages) error {
	if _, err := exec.LookPath("h2load"); err != nil {
		return errors.New("h2load is not installed (Debian: nghttp2-client)")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "neutral")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all := []contestant{{"tarn", []string{self, "serve", "tarn"}}, {"tarn-lent", []string{self, "serve", "tarn-lent"}}, {"grpc", []string{self, "serve", "grpc"}}}
	if languages == everyLanguage {
		all = append(all, foreign(dir)...)
	}
	fmt.Printf("# %s, %d processors, %s\n", runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	for turn := range count {
		for _, size := range sizes {
			for _, c := range all {
				m, err := measure(dir, c, size, seconds)
				if err != nil {
					return fmt.Errorf("%s, %d bytes, turn %d: %w", c.name, size, turn+1, err)
				}
				fmt.Printf("BenchmarkNeutral/size=%d/peer=%s \t%8d\t%12.0f ns/op\t%12.0f cpu-ns/op\t%12.0f user-ns/op\t%12.0f kernel-ns/op\n",
					size, c.name, m.calls, m.wall, m.user+m.kernel, m.user, m.kernel)
			}
		}
	}
	return nil
}

// measurement is what one run of h2load cost the server, in nanoseconds a call.
type measurement struct {
	calls              int
	wall, user, kernel float64
}

// measure starts a server, warms it up, and loads it for about so many seconds.
func measure(dir string, c contestant, size int, seconds float64) (measurement, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return measurement{}, err
	}
	stdin, err := cmd.StdinPipe() // its end ends the server
	if err != nil {
		return measurement{}, err
	}
	if err := cmd.Start(); err != nil {
		return measurement{}, err
	}
	defer func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	}()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return measurement{}, fmt.Errorf("the server did not start: %w", err)
	}
	url := "http://" + strings.TrimSpace(addr) + "/grpc.testing.TestService/UnaryCall"
	body := filepath.Join(dir, fmt.Sprint(size))
	if err := os.WriteFile(body, request(size), 0o600); err != nil {
		return measurement{}, err
	}
	// Warm, until it is known how many calls a second there are.
	calls := 256
	begun := time.Now()
	for err := load(ctx, url, body, calls); ; err = load(ctx, url, body, calls) {
		if err != nil {
			return measurement{}, err
		}
		took := time.Since(begun).Seconds()
		if took >= seconds/4 {
			calls = max(int(float64(calls)*seconds/took), calls)
			break
		}
		calls *= 4
		begun = time.Now()
	}
	userBefore, kernelBefore, err := times(cmd.Process.Pid)
	if err != nil {
		return measurement{}, err
	}
	begun = time.Now()
	if err := load(ctx, url, body, calls); err != nil {
		return measurement{}, err
	}
	wall := time.Since(begun)
	user, kernel, err := times(cmd.Process.Pid)
	if err != nil {
		return measurement{}, err
	}
	n := float64(calls)
	return measurement{calls, float64(wall) / n, float64(user-userBefore) / n, float64(kernel-kernelBefore) / n}, nil
}

// load makes so many calls over 4 connections with 32 streams each.
func load(ctx context.Context, url, body string, calls int) error {
	out, err := exec.CommandContext(ctx, "h2load", "-n", strconv.Itoa(calls), "-c", "4", "-m", "32", "-d", body,
		"-H", "content-type: application/grpc", "-H", "te: trailers", "-w", "24", "-W", "26", url).CombinedOutput()
	if err != nil {
		return fmt.Errorf("h2load: %w: %s", err, out)
	}
	if !strings.Contains(string(out), fmt.Sprintf("%d succeeded, 0 failed", calls)) {
		return fmt.Errorf("h2load: not every call succeeded: %s", out)
	}
	return nil
}

// request is the framed request of the test service's UnaryCall with a payload of size bytes.
func request(size int) []byte {
	payload := protowire.AppendTag(nil, 2, protowire.BytesType)
	payload = protowire.AppendBytes(payload, make([]byte, size))
	msg := protowire.AppendTag(nil, 3, protowire.BytesType)
	msg = protowire.AppendBytes(msg, payload)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg))), msg...)
}

// tick is the unit of processor time in /proc/PID/stat: USER_HZ, which is 100 on every Linux.
const tick = time.Second / 100

// times returns the processor time that a process has used.
func times(pid int) (user, kernel time.Duration, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The second field is the command's name in parentheses, which may hold anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 13 {
		return 0, 0, syscall.EINVAL
	}
	u, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, 0, err
	}
	k, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(u) * tick, time.Duration(k) * tick, err
}
