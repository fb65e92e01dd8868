// Command neutral has h2load, a client of another project, call one echo server after another and
// prints the processor time that each server takes for a call, in the form of Go's benchmarks:
//
//	go run ./neutral                          tarn, tarn lending requests, grpc-go; 100 B, 16 KiB, 1 MiB
//	go run ./neutral -count 5 -size 16384     five turns of one size
//	go run ./neutral -others                  tonic and gRPC C++ as well, built here by cargo and g++
//	go run ./neutral -bench client            the same with a client on grpc-go instead of h2load
//	go run ./neutral -bench burst             the servers' memory ten seconds after 256 calls of 1 MiB on 64 streams
//
// Each server runs in a separate process; its time is what the system accounts to it between the first call and
// the last. Each turn measures all servers, so that a period in which the machine is slow does not
// affect one server alone. h2load is Debian's nghttp2-client; tonic comes from crates.io, gRPC C++ from
// Debian's libgrpc++-dev, libprotobuf-dev and protobuf-compiler-grpc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/cputime"
)

func main() {
	if len(os.Args) == 3 {
		run := map[string]func(string) error{"serve": serve, "call": call}[os.Args[1]]
		if run != nil {
			exit(run(os.Args[2]))
		}
	}
	count := flag.Int("count", 3, "turns")
	size := flag.Int("size", 0, "payload in bytes; 0: 100 B, 16 KiB and 1 MiB")
	others := flag.Bool("others", false, "build and measure tonic and gRPC C++ as well")
	seconds := flag.Float64("seconds", 2, "about how long one measurement takes")
	what := flag.String("bench", "neutral", "neutral: processor time by h2load; client: by a grpc-go client; burst: memory after 64 MiB")
	flag.Parse()
	sizes := []int{100, 16 << 10, 1 << 20}
	if *size > 0 {
		sizes = []int{*size}
	}
	var more []listing
	if *others {
		more = append(more, foreign)
	}
	exit(run(*what, sizes, *count, *seconds, more))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "neutral:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// listing returns further contestants, whose programs it may build below dir. self is this program.
type listing func(self, dir string) []contestant

// contestant is a server: how it is started.
type contestant struct {
	name    string
	command []string
}

func run(what string, sizes []int, count int, seconds float64, more []listing) error {
	client, name := h2load, "Neutral"
	switch what {
	case "neutral":
	case "client":
		client, name = grpcClient, "Client"
	case "burst":
		sizes = []int{1 << 20}
	default:
		return fmt.Errorf("there is no benchmark %q", what)
	}
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
	for _, list := range more {
		all = append(all, list(self, dir)...)
	}
	fmt.Printf("# go version %s %s/%s, %d processors, %s\n# -bench '%s', %d turns\ncpu: %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), time.Now().UTC().Format("2006-01-02 15:04 UTC"), what, count, cputime.Model())
	for turn := range count {
		for _, size := range sizes {
			for _, c := range all {
				if what == "burst" {
					if err := burst(dir, c, size); err != nil {
						return fmt.Errorf("%s, turn %d: %w", c.name, turn+1, err)
					}
					continue
				}
				m, err := measure(dir, c, client, size, seconds)
				if err != nil {
					return fmt.Errorf("%s, %d bytes, turn %d: %w", c.name, size, turn+1, err)
				}
				fmt.Printf("Benchmark%s/size=%d/peer=%s \t%8d\t%12.0f ns/op\t%12.0f cpu-ns/op\t%12.0f user-ns/op\t%12.0f kernel-ns/op\n",
					name, size, c.name, m.calls, m.wall, m.user+m.kernel, m.user, m.kernel)
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

// start starts c, which runs until it is killed, or ctx ends.
func start(ctx context.Context, c contestant) (*child.Process, error) {
	return child.Start(exec.CommandContext(ctx, c.command[0], c.command[1:]...))
}

// measure starts a server, warms it up, and has client load it for about so many seconds.
func measure(dir string, c contestant, client client, size int, seconds float64) (measurement, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p, err := start(ctx, c)
	if err != nil {
		return measurement{}, err
	}
	defer p.Kill()
	// Warm, until it is known how many calls a second there are.
	load := load{dir: dir, addr: p.Addr, size: size, conns: 4, streams: 32, calls: 256}
	begun := time.Now()
	for err := client(ctx, load); ; err = client(ctx, load) {
		if err != nil {
			return measurement{}, err
		}
		took := time.Since(begun).Seconds()
		if took >= seconds/4 {
			load.calls = max(int(float64(load.calls)*seconds/took), load.calls)
			break
		}
		load.calls *= 4
		begun = time.Now()
	}
	before, err := p.Times()
	if err != nil {
		return measurement{}, err
	}
	begun = time.Now()
	if err := client(ctx, load); err != nil {
		return measurement{}, err
	}
	wall := time.Since(begun)
	after, err := p.Times()
	if err != nil {
		return measurement{}, err
	}
	n, took := float64(load.calls), after.Sub(before)
	return measurement{load.calls, float64(wall) / n, float64(took.User) / n, float64(took.Kernel) / n}, nil
}
