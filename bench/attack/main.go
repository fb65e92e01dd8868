// Command attack runs the attacks of docs/reference/h2.md on rpc's server and on grpc-go's, one after the other, and prints the memory and
// processor time that each takes, as a Markdown table:
//
//	go run ./attack                   all attacks
//	go run ./attack -run one-byte     those whose name matches it, a regular expression
//	go run ./attack -turns 3          the median of three turns
//	go run ./attack -over tls         over TLS; wrapped: over connections whose type no server recognises
//	go run ./attack -http             on h2http's server and on net/http's
//
// Each server runs in a separate process with its default options. Its memory is the peak of its resident set
// (VmHWM), its processor time is what the system accounts to it, both from /proc: Linux alone. While an attack
// lasts, a client of grpc-go (net/http's with -http) makes small calls on a separate connection, or, where the table says so, on the
// attacked one.
//
// An attack passes when no healthy call failed on Tarn's server and its peak is at most the
// other's or 64 MiB. The exit status is 1 when one did not, after all have been mounted.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "serve" {
		if err := serve(os.Args[2], kind(os.Args[3])); err != nil {
			fail(err)
		}
		return
	}
	run := flag.String("run", "", "only attacks whose name matches this `regexp`")
	turns := flag.Int("turns", 1, "turns over all servers; medians are printed")
	over := flag.String("over", string(plain), "the kind of connections: plain, tls or wrapped")
	onHTTP := flag.Bool("http", false, "servers of HTTP in place of gRPC's")
	flag.Parse()
	pattern, err := regexp.Compile(*run)
	if err != nil {
		fail(err)
	}
	mounted := slices.DeleteFunc(slices.Clone(attacks), func(a attack) bool { return !pattern.MatchString(a.name) })
	if *turns < 1 {
		fail(fmt.Errorf("-turns %d: there is at least one", *turns))
	}
	if len(mounted) == 0 {
		fail(fmt.Errorf("no attack's name matches %q", *run))
	}
	pair := rpcServers
	if *onHTTP {
		pair = httpServers
	}
	ok, err := compare(mounted, *turns, pair, kind(*over))
	if err != nil {
		fail(err)
	}
	if !ok {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "attack:", err)
	os.Exit(1)
}

// memoryBound is the peak memory in bytes that passes even if grpc-go's server needs less.
const memoryBound = 64 << 20

// servers are the names of Tarn's server and of the one it is compared with.
type servers struct{ tarn, peer string }

var (
	rpcServers  = servers{"tarn", "grpc"}
	httpServers = servers{"h2http", "nethttp"}
)

// takes reports whether an attack can be mounted on s.
func (s servers) takes(a attack) bool { return !a.grpc || s == rpcServers }

// compare mounts the attacks and prints a line each. ok is false when one did not pass.
func compare(mounted []attack, turns int, on servers, k kind) (ok bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	fmt.Printf("%s beside %s over %s connections, %s, %d processors, %s, %d turns: medians, and failed calls of all turns\n\n", on.tarn, on.peer, k,
		runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format("2006-01-02 15:04 UTC"), turns)
	fmt.Printf("| attack | peak MB %[1]s | %[2]s | processor ms %[1]s | %[2]s | connections %[1]s | %[2]s | steps %[1]s | %[2]s | healthy calls failed %[1]s | %[2]s | |\n|---|%[3]s---|\n",
		on.tarn, on.peer, strings.Repeat("---:|", 10))
	ok = true
	for _, a := range mounted {
		if !on.takes(a) {
			continue
		}
		var tarn, peer []cost
		for range turns {
			for _, s := range []struct {
				name  string
				costs *[]cost
			}{{on.tarn, &tarn}, {on.peer, &peer}} {
				c, err := measure(self, s.name, k, a, 1)
				if err != nil {
					return false, fmt.Errorf("%s on %s: %w", a.name, s.name, err)
				}
				*s.costs = append(*s.costs, c)
			}
		}
		t, p := median(tarn), median(peer)
		verdict := "pass"
		if !t.within(p, memoryBound) {
			verdict, ok = "FAIL", false
		}
		fmt.Printf("| %s | %.0f | %.0f | %.0f | %.0f | %d | %d | %d | %d | %d of %d | %d of %d | %s |\n", a.name, mb(t.peak), mb(p.peak), ms(t.cpu), ms(p.cpu),
			t.conns, p.conns, t.steps, p.steps, t.failed, t.calls, p.failed, p.calls, verdict)
		if err := cmp.Or(t.firstErr, p.firstErr); err != nil {
			fmt.Fprintf(os.Stderr, "%s: a healthy call failed: %v\n", a.name, err)
		}
	}
	return ok, nil
}

// cost is the memory and processor time that an attack takes on a server.
type cost struct {
	peak          int64         // of the resident set, in bytes
	cpu           time.Duration // user and system
	conns, steps  int           // that the attack took
	calls, failed int           // healthy calls
	firstErr      error         // of the first healthy call that failed
}

// within reports whether c, of Tarn's server, passes when other is the peer's cost.
func (c cost) within(other cost, least int64) bool {
	return c.failed == 0 && c.calls > 0 && c.peak <= max(other.peak, least)
}

// median is the median of each figure, but all failures.
func median(cs []cost) cost {
	var m cost
	by := func(value func(cost) int64) int64 {
		all := make([]int64, len(cs))
		for i, c := range cs {
			all[i] = value(c)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	m.peak = by(func(c cost) int64 { return c.peak })
	m.cpu = time.Duration(by(func(c cost) int64 { return int64(c.cpu) }))
	m.conns = int(by(func(c cost) int64 { return int64(c.conns) }))
	m.steps = int(by(func(c cost) int64 { return int64(c.steps) }))
	m.calls = int(by(func(c cost) int64 { return int64(c.calls) }))
	for _, c := range cs {
		m.failed += c.failed
		m.firstErr = cmp.Or(m.firstErr, c.firstErr)
	}
	return m
}

func mb(n int64) float64         { return float64(n) / 1e6 }
func ms(d time.Duration) float64 { return float64(d) / 1e6 }
