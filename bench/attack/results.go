package main

import (
	"fmt"
	"io"
	"strings"
)

// column is a server in the tables of docs/h2.md.
type column struct {
	peer string // its name in results/attack.txt
	on   servers
	name string
	kind kind
}

// columns are Tarn's servers, after grpc-go's, which their memory is compared with.
var columns = []column{
	{"grpc", rpcServers, rpcServers.peer, plain},
	{"rpc", rpcServers, rpcServers.tarn, plain},
	{"rpc-tls", rpcServers, rpcServers.tarn, overTLS},
	{"rpc-wrapped", rpcServers, rpcServers.tarn, wrapped},
	{"h2http", httpServers, httpServers.tarn, plain},
	{"h2http-tls", httpServers, httpServers.tarn, overTLS},
}

// printResults mounts the attacks on the server of each column, turns times, and prints a line for each as a benchmark does:
// the peak of the resident set, the processor time, the healthy calls and those of them that failed. Attacks that did not pass
// on one of Tarn's servers are named at the end; ok is false then.
func printResults(w io.Writer, mounted []attack, turns int, mount func(column, attack) (cost, error)) (ok bool, err error) {
	type turn struct{ attack, peer string }
	costs := map[turn][]cost{}
	for range turns {
		for _, a := range mounted {
			for _, c := range columns {
				if !c.on.takes(a) {
					continue
				}
				got, err := mount(c, a)
				if err != nil {
					return false, fmt.Errorf("%s on %s: %w", a.name, c.peer, err)
				}
				on := turn{a.name, c.peer}
				costs[on] = append(costs[on], got)
				if got.firstErr != nil {
					fmt.Fprintf(w, "# a healthy call failed: %v\n", got.firstErr)
				}
				if _, err := fmt.Fprintf(w, "BenchmarkAttack/%s/peer=%s 1 %.1f peak-MB %.0f cpu-ms %d healthy-calls %d failed-calls\n",
					strings.ReplaceAll(a.name, " ", "_"), c.peer, mb(got.peak), ms(got.cpu), got.calls, got.failed); err != nil {
					return false, err
				}
			}
		}
	}
	ok = true
	for _, a := range mounted {
		other := median(costs[turn{a.name, columns[0].peer}])
		for _, c := range columns[1:] {
			if !c.on.takes(a) {
				continue
			}
			got := median(costs[turn{a.name, c.peer}])
			if got.within(other, memoryBound) {
				continue
			}
			ok = false
			if _, err := fmt.Fprintf(w, "# FAIL: %s on %s: %d healthy calls failed of %d; a peak of %.0f MB, that of %s %.0f MB\n",
				a.name, c.peer, got.failed, got.calls, mb(got.peak), columns[0].peer, mb(other.peak)); err != nil {
				return false, err
			}
		}
	}
	return ok, nil
}
