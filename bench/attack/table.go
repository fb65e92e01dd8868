package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// column is a server in the table of docs/h2.md.
type column struct {
	title string
	on    servers
	name  string
	kind  kind
}

// columns are Tarn's servers, after grpc-go's, which their memory is compared with.
var columns = []column{
	{"grpc-go", rpcServers, rpcServers.peer, plain},
	{"rpc", rpcServers, rpcServers.tarn, plain},
	{"rpc, TLS", rpcServers, rpcServers.tarn, overTLS},
	{"rpc, wrapped", rpcServers, rpcServers.tarn, wrapped},
	{"h2http", httpServers, httpServers.tarn, plain},
	{"h2http, TLS", httpServers, httpServers.tarn, overTLS},
}

// printTable runs the attacks whose names contain pattern on each server and prints a line each, with peak MB and
// processor ms. It ends with what did not pass: ok is false then. An attack passes on a server of Tarn's when no
// healthy call failed and its memory is at most that of grpc-go's server over plain connections, or memoryBound.
func printTable(w io.Writer, pattern string) (ok bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	fmt.Fprint(w, "| attack: peak MB / processor ms |")
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", c.title)
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(columns)))
	var failed []string
	for _, a := range attacks {
		if !strings.Contains(a.name, pattern) {
			continue
		}
		fmt.Fprintf(w, "| %s |", a.name)
		var peer cost
		for i, c := range columns {
			if !c.on.takes(a) {
				fmt.Fprint(w, " – |")
				continue
			}
			got, err := measure(self, c.name, c.kind, a, 1)
			if err != nil {
				return false, fmt.Errorf("%s on %s: %w", a.name, c.title, err)
			}
			if i == 0 {
				peer = got
			} else if !got.within(peer, memoryBound) {
				failed = append(failed, fmt.Sprintf("%s on %s: %.0f MB, grpc-go %.0f, %d of %d calls failed", a.name, c.title, mb(got.peak), mb(peer.peak), got.failed, got.calls))
			}
			fmt.Fprintf(w, " %.0f / %.0f |", mb(got.peak), ms(got.cpu))
		}
		fmt.Fprintln(w)
	}
	for _, f := range failed {
		fmt.Fprintln(w, "\nnot passed:", f)
	}
	return len(failed) == 0, nil
}
