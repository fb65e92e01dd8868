// Command neutral has h2load, a client of another project, call one server after another and prints the processor time that each
// server takes for a call, in the form of Go's benchmarks:
//
//	go run ./neutral                          echoes over gRPC and Connect: tarn, tarn lending requests, grpc-go, connect-go
//	go run ./neutral -count 5 -size 16384     five turns of one size; otherwise 100 B, 16 KiB, 1 MiB
//	go run ./neutral -others                  tonic, connect-rust, both also with mimalloc, and gRPC C++ as well, built here by cargo and g++
//	go run ./neutral -bench http              responses of HTTP/2, in the clear and over TLS: h2http, its ConfigureServer, net/http, nginx
//	go run ./neutral -bench http -next FILE   the same, and h2http and net/http in FILE, this program built by another release of Go
//	go run ./neutral -bench client            calls of a client on grpc-go instead of h2load
//	go run ./neutral -bench burst             the servers' memory ten seconds after 256 calls of 1 MiB on 64 streams
//
// Each server runs in a separate process; its time is what the system accounts to it between the first call and the last. Each turn
// measures all servers, beginning with another one, so that a period in which the machine is slow does not affect one server alone.
// h2load is Debian's nghttp2-client; tonic, connect-rust and mimalloc come from crates.io, gRPC C++ from Debian's libgrpc++-dev,
// libprotobuf-dev and protobuf-compiler-grpc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/cputime"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("neutral: ")
	if len(os.Args) == 3 {
		run := map[string]func(string) error{"serve": serve, "call": call, "announce": announce}[os.Args[1]]
		if run != nil {
			exit(run(os.Args[2]))
		}
	}
	if len(os.Args) == 2 && os.Args[1] == "release" {
		fmt.Println(runtime.Version())
		return
	}
	count := flag.Int("count", 3, "turns")
	size := flag.Int("size", 0, "payload in bytes; 0: 100 B, 16 KiB and 1 MiB")
	others := flag.Bool("others", false, "build and measure servers in Rust and C++ as well")
	next := flag.String("next", "", "with -bench http: this program, in `file`, built by another release of Go")
	seconds := flag.Float64("seconds", 2, "about how long one measurement takes")
	what := flag.String("bench", "neutral", "neutral, http: processor time by h2load; client: by a grpc-go client; burst: memory after 64 MiB")
	flag.Parse()
	sizes := []int{100, 16 << 10, 1 << 20}
	if *size > 0 {
		sizes = []int{*size}
	}
	foreign := func(string) []contestant { return nil }
	if *others {
		foreign = buildForeign
	}
	exit(run(*what, sizes, *count, *seconds, foreign, *next))
}

func exit(err error) {
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// contestant is a server: how it is started, and what it is called by.
type contestant struct {
	name      string
	command   []string
	protocols []protocol
}

// own are the servers of this program: those of the Go libraries, and nginx if there is one.
func own(what, self, next string) ([]contestant, error) {
	serve := func(program, server string, p ...protocol) contestant {
		return contestant{strings.TrimSuffix(server, "-tls"), []string{program, "serve", server}, p}
	}
	if what != "http" {
		all := []contestant{serve(self, "tarn", grpcOverHTTP2, connectOverHTTP2), serve(self, "tarn-lent", grpcOverHTTP2, connectOverHTTP2), serve(self, "grpc", grpcOverHTTP2)}
		if what == "neutral" {
			all = append(all, serve(self, "connect-go", grpcOverHTTP2, connectOverHTTP2))
		}
		return all, nil
	}
	servers := []string{"h2http", "configure", "nethttp", "nginx"}
	if _, err := findNginx(); err != nil {
		log.Printf("nginx is left out: %v", err)
		servers = servers[:3]
	}
	var all []contestant
	for _, s := range servers {
		all = append(all, serve(self, s, httpPlain), serve(self, s+"-tls", httpTLS))
	}
	if next != "" {
		release, err := exec.Command(next, "release").Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", next, err)
		}
		for _, s := range []string{"h2http", "nethttp"} {
			for _, c := range []contestant{serve(next, s, httpPlain), serve(next, s+"-tls", httpTLS)} {
				c.name += "," + strings.TrimSpace(string(release))
				all = append(all, c)
			}
		}
	}
	return all, nil
}

func run(what string, sizes []int, count int, seconds float64, foreign func(dir string) []contestant, next string) error {
	client, name, protocols := h2load, "Neutral", []protocol{grpcOverHTTP2, connectOverHTTP2}
	switch what {
	case "neutral":
	case "http":
		name, protocols = "HTTP", []protocol{httpPlain, httpTLS}
	case "client":
		client, name, protocols = grpcClient, "Client", protocols[:1]
	case "burst":
		sizes, protocols = []int{1 << 20}, protocols[:1]
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
	all, err := own(what, self, next)
	if err != nil {
		return err
	}
	if what != "http" {
		all = append(all, foreign(dir)...)
	}
	fmt.Printf("# go version %s %s/%s, %d processors, %s\n# -bench '%s', %d turns\ncpu: %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), time.Now().UTC().Format("2006-01-02 15:04 UTC"), what, count, cputime.Model())
	for turn := range count {
		for _, p := range protocols {
			for _, size := range sizes {
				for i := range all {
					c := all[(i+turn)%len(all)]
					if !slices.Contains(c.protocols, p) {
						continue
					}
					if what == "burst" {
						if err := burst(dir, c, size); err != nil {
							return fmt.Errorf("%s, turn %d: %w", c.name, turn+1, err)
						}
						continue
					}
					m, err := measure(c, client, load{dir: dir, protocol: p, size: size, conns: 4, streams: 32, calls: 256}, seconds)
					if err != nil {
						return fmt.Errorf("%s, %s, %d bytes, turn %d: %w", c.name, p, size, turn+1, err)
					}
					fmt.Printf("Benchmark%s/protocol=%s/size=%d/peer=%s \t%8d\t%12.0f ns/op\t%12.0f cpu-ns/op\t%12.0f user-ns/op\t%12.0f kernel-ns/op\n",
						name, p, size, c.name, m.calls, m.wall, m.user+m.kernel, m.user, m.kernel)
				}
			}
		}
	}
	return nil
}

// measurement is what one run of a client cost the server, in nanoseconds a call.
type measurement struct {
	calls              int
	wall, user, kernel float64
}

// start starts c, which runs until it is killed, or ctx ends, and may leave files in dir.
func start(ctx context.Context, dir string, c contestant) (*child.Process, error) {
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	return child.Start(cmd)
}

// measure starts a server, warms it up, and has client load it for about so many seconds.
func measure(c contestant, client client, load load, seconds float64) (measurement, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p, err := start(ctx, load.dir, c)
	if err != nil {
		return measurement{}, err
	}
	defer p.Kill()
	load.addr = p.Addr
	// Warm, until it is known how many calls a second there are.
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
