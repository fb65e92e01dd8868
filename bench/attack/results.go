package main

import (
	"fmt"
	"io"
	"os"
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
// the peak of the resident set, the processor time, the healthy calls and those of them that failed.
func printResults(w io.Writer, mounted []attack, turns int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for range turns {
		for _, a := range mounted {
			for _, c := range columns {
				if !c.on.takes(a) {
					continue
				}
				got, err := measure(self, c.name, c.kind, a, 1)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", a.name, c.peer, err)
				}
				if got.firstErr != nil {
					fmt.Fprintf(w, "# a healthy call failed: %v\n", got.firstErr)
				}
				if _, err := fmt.Fprintf(w, "BenchmarkAttack/%s/peer=%s 1 %.1f peak-MB %.0f cpu-ms %d healthy-calls %d failed-calls\n",
					strings.ReplaceAll(a.name, " ", "_"), c.peer, mb(got.peak), ms(got.cpu), got.calls, got.failed); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
