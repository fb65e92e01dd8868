package main

import (
	"fmt"
	"slices"
	"strings"
)

// bar is a target: in a metric of a benchmark, the ratio of Tarn's value to a peer's, or a bound for Tarn's value.
type bar struct {
	what  string
	bench string
	unit  string // empty: ns/op
	peer  string // empty: Tarn's value alone is compared with the target
	first float64
	aim   float64 // the stretch target; none: no figure
	sense sense
}

// none is a stretch target that is not a figure, or that does not exist.
const none = -1

// sense is how Tarn's value and the peer's are compared with the target.
type sense int

const (
	timesTheirs sense = iota // Tarn's / the peer's is at most the target
	timesFaster              // the peer's / Tarn's is at least the target
	timesMore                // Tarn's / the peer's is at least the target
	atMost                   // Tarn's is at most the target
)

// bars are the rows of the design's table of goals that concern the core and gRPC.
func bars() []bar {
	call := func(size, callers int) string {
		return fmt.Sprintf("Unary/tls=off/size=%d/callers=%d", size, callers)
	}
	neutral := func(what string, size int, peer string, first, aim float64) bar {
		return bar{what, fmt.Sprintf("Neutral/size=%d", size), "cpu-ns/op", peer, first, aim, timesFaster}
	}
	slowest := func(what string, size int) bar {
		return bar{what, call(size, 64), "p99-ns", "grpc", 0.5, none, timesTheirs}
	}
	return []bar{
		{"Get and Free of 32 KiB, against a bare `sync.Pool`", "GetFree/size=32768", "", "syncpool", 1.35, 1.2, timesTheirs},
		{"burst of 64 × 32 KiB after one collection, against mcache", "BurstAfterGC/cycles=1", "", "mcache", 1.2, 1, timesTheirs},
		{"the same after two", "BurstAfterGC/cycles=2", "", "mcache", 1.2, 1, timesTheirs},
		{"the same after three", "BurstAfterGC/cycles=3", "", "mcache", 1.2, 1, timesTheirs},
		{"Get, Split, Free, Free, against grpc-go's default pool", "Split", "", "grpc", 10, none, timesFaster},
		{"the same, against a pool that does not zero", "Split", "", "grpc-nozero", 4.5, 6, timesFaster},
		{"length to class, against grpc-go's BinaryTiered: Get alone", "Lookup/side=get", "", "grpc", 0.8, 0.5, timesTheirs},
		{"the same, Get and Free", "Lookup/side=both", "", "grpc", 0.8, 0.5, timesTheirs},
		{"Arena get and free of 64 B, against jsign/bufpool's scheme", "Small/size=64", "", "shards", 4, 8, timesFaster},
		{"its Chaos benchmark", "Chaos/hold=none", "", "shards", 4, 8, timesFaster},
		{"Chaos, allocations an operation", "Chaos/hold=none", "allocs/op", "", 0, 0, atMost},
		neutral("server by h2load, 100 B, processor time, against grpc-go", 100, "grpc", 5, 7),
		neutral("the same, against tonic", 100, "tonic", 3, 4),
		neutral("16 KiB, against tonic", 16<<10, "tonic", 1.33, 1.6),
		neutral("1 MiB, against tonic", 1<<20, "tonic", 1.25, none),
		{"server by a grpc-go client, 100 B, processor time, against grpc-go", "Client/size=100", "cpu-ns/op", "grpc", 0.3, 0.2, timesTheirs},
		{"resident memory ten seconds after a burst of 1 MiB calls, in parts of what it was before", "Burst/size=1048576", "after/base", "", 1.5, none, atMost},
		{"unary gRPC, both ends, 100 B, 64 callers, against grpc-go", call(100, 64), "calls/s", "grpc", 4.5, 6, timesMore},
		{"the same, allocations a call, both ends", call(100, 64), "allocs/op", "", 8, 6, atMost},
		{"16 KiB, 8 callers, against grpc-go", call(16<<10, 8), "calls/s", "grpc", 2.2, 3, timesMore},
		{"1 MiB, 8 callers, against grpc-go", call(1<<20, 8), "calls/s", "grpc", 2.2, 3, timesMore},
		slowest("99 in 100 of 64 callers' calls are answered within, 100 B, against grpc-go", 100),
		slowest("the same, 1 KiB", 1<<10),
		slowest("16 KiB", 16<<10),
		slowest("64 KiB", 64<<10),
		slowest("1 MiB", 1<<20),
		{"messages on open streams, 100 B, 64 callers, against grpc-go", "Stream/tls=off/size=100/callers=64", "calls/s", "grpc", 2, 3, timesMore},
		{"an idle connection's memory, client, against grpc-go", "Idle/tls=off", "client-B/conn", "grpc", 0.2, 0.1, timesTheirs},
		{"the same, server", "Idle/tls=off", "server-B/conn", "grpc", 0.2, 0.1, timesTheirs},
	}
}

// httpBars are those of net/http's handlers and clients that "tarn bench http" does not measure.
func httpBars() []bar {
	connect := func(what, protocol string) bar {
		return bar{what, "ConnectUnary/protocol=" + protocol, "cpu-ns/op", "nethttp", 0.6, 0.5, timesTheirs}
	}
	return []bar{
		connect("connect-go, unary calls of 100 B by 64 callers, client and handler on one stack, against net/http's HTTP/2, Connect", "connect"),
		connect("the same, gRPC", "grpc"),
	}
}

// smbBars are those that concern SMB; the peer is go-smb2, or smbclient where files are copied by a command.
func smbBars() []bar {
	const peer = "go-smb2"
	script := func(what, mode, size string, aim float64) bar {
		return bar{what, "Script/op=ReadAt/mode=" + mode + "/size=" + size, "", peer, 1, aim, timesFaster}
	}
	samba := func(what, mode string, first float64) bar {
		return bar{what, "Samba/mode=" + mode + "/op=read/shape=seq-1M/goroutines=1", "MB/s", peer, first, none, timesMore}
	}
	tree := func(what, mode, rtt, op, unit string, first, aim float64) bar {
		return bar{what, "Tree/mode=" + mode + "/rtt=" + rtt + "/op=" + op, unit, "smbclient", first, aim, timesFaster}
	}
	small := func(what, mode, op, unit string) bar {
		return bar{what, "Files/mode=" + mode + "/op=" + op, unit, peer, 1.2, 2, timesFaster}
	}
	const cpu = "cpu-ns/op"
	return []bar{
		tree("1,000 files of 4 KiB, `tarn smb get -r` against smbclient, plain, elapsed", "plain", "0s", "get", "", 1.5, 3),
		tree("the same, processor time", "plain", "0s", "get", cpu, 1.5, 3),
		tree("signed, processor time", "signed", "0s", "get", cpu, 1.5, 3),
		tree("encrypted, processor time", "encrypted", "0s", "get", cpu, 1.5, 3),
		tree("`put -r`, plain, elapsed", "plain", "0s", "put", "", 1.5, 3),
		tree("the same, processor time", "plain", "0s", "put", cpu, 1.5, 3),
		tree("signed, processor time", "signed", "0s", "put", cpu, 1.5, 3),
		tree("encrypted, processor time", "encrypted", "0s", "put", cpu, 1.5, 3),
		tree("`get -r` at 2 ms round trip, elapsed", "plain", "2ms", "get", "", 6, 15),
		tree("`put -r` at 2 ms round trip, elapsed", "plain", "2ms", "put", "", 6, 15),
		small("open, ReadAll of 4 KiB, close, against go-smb2, elapsed", "plain", "open-read-4K", ""),
		small("the same, processor time", "plain", "open-read-4K", cpu),
		small("create, write 4 KiB, close, elapsed", "plain", "create-write-4K", ""),
		small("the same, processor time", "plain", "create-write-4K", cpu),
		small("Stat, elapsed", "plain", "stat", ""),
		small("the same, processor time", "plain", "stat", cpu),
		small("ReadDir of 5,000, elapsed", "plain", "list-5000", ""),
		small("the same, processor time", "plain", "list-5000", cpu),
		script("ReadAt on an in-memory connection, plain, 1 KiB", "plain", "1K", none),
		script("the same, 64 KiB", "plain", "64K", none),
		script("the same, 1 MiB", "plain", "1024K", 2),
		script("the same, signed, 1 KiB", "signed", "1K", none),
		script("the same, 64 KiB", "signed", "64K", none),
		script("the same, 1 MiB", "signed", "1024K", none),
		script("the same, encrypted, 1 KiB", "encrypted", "1K", none),
		script("the same, 64 KiB", "encrypted", "64K", none),
		script("the same, 1 MiB", "encrypted", "1024K", 1.3),
		{"its allocations", "Script/op=ReadAt/mode=encrypted/size=1024K", "allocs/op", "", 0, 0, atMost},
		samba("reads of 1 MiB from Samba, one goroutine, plain", "plain", 1.2),
		samba("the same, signed", "signed", 3),
		samba("the same, encrypted", "encrypted", 1.5),
		{"one ReadAt of 16 MiB at 2 ms round trip", "Delayed/rtt=2ms/op=read/shape=seq-16M", "MB/s", peer, 2.5, none, timesMore},
		{"1 MiB ReadAt alternating with Stat, bytes allocated", "Mixed/mode=plain", "B/op", "", 4096, 256, atMost},
	}
}

// about are the bars of the benchmarks whose names begin with prefix.
func about(prefix string, bars []bar) []bar {
	return slices.DeleteFunc(slices.Clone(bars), func(c bar) bool { return !strings.HasPrefix(c.bench, prefix) })
}

func barTable(r *results, bars []bar) string {
	var b strings.Builder
	b.WriteString("| what | target | stretch target | measured (range) | Tarn | peer | benchmark |\n|---|---|---|---|---|---|---|\n")
	for _, c := range bars {
		b.WriteString(c.row(r))
	}
	return b.String()
}

func (c bar) row(r *results) string {
	unit := c.unit
	if unit == "" {
		unit = "ns/op"
	}
	own, ok := r.median(c.bench, "tarn", unit)
	theirs, okPeer := r.median(c.bench, c.peer, unit)
	if !ok || (c.sense != atMost && !okPeer) {
		return fmt.Sprintf("| %s | %s | %s | not measured | | | `%s` |\n", c.what, c.goal(c.first), c.goal(c.aim), c.bench)
	}
	v := own
	switch c.sense {
	case timesTheirs, timesMore:
		v = own / theirs
	case timesFaster:
		v = theirs / own
	}
	peer := ""
	if c.sense != atMost {
		peer = format(theirs, unit)
	}
	return fmt.Sprintf("| %s | %s | %s | %s%s | %s | %s | `%s` |\n",
		c.what, c.goal(c.first), c.goal(c.aim), c.value(v)+c.spread(r, unit), c.verdict(v)+c.doubt(r, unit, v), format(own, unit), peer, c.bench)
}

// spread is the range of the ratio over the turns, in brackets.
func (c bar) spread(r *results, unit string) string {
	low, high := c.bounds(r, unit)
	if low == high {
		return ""
	}
	return fmt.Sprintf(" (%.2f–%.2f)", low, high)
}

// bounds are the lowest and the highest ratio of a turn's value to that of the peer's turn next to it.
func (c bar) bounds(r *results, unit string) (low, high float64) {
	return ends(c.turns(r, key{c.bench, "tarn", unit}))
}

// ends are the lowest and the highest of v, 0 of none.
func ends(v []float64) (low, high float64) {
	if len(v) == 0 {
		return 0, 0
	}
	return slices.Min(v), slices.Max(v)
}

// turns are the ratios of the values of own, a contestant, to those that the peer had in the same turns.
func (c bar) turns(r *results, own key) []float64 {
	ours, theirs := r.values[own], r.values[key{c.bench, c.peer, own.unit}]
	n := min(len(ours), len(theirs)) // one that was added later has not been in the first turns
	ours, theirs = ours[len(ours)-n:], theirs[len(theirs)-n:]
	var ratios []float64
	for i := range n {
		switch {
		case ours[i] <= 0 || theirs[i] <= 0:
		case c.sense == timesFaster:
			ratios = append(ratios, theirs[i]/ours[i])
		default:
			ratios = append(ratios, ours[i]/theirs[i])
		}
	}
	return ratios
}

// doubt says where the median of the turns' ratios is on another side of a target than v, the ratio of the medians; empty if it is not.
func (c bar) doubt(r *results, unit string, v float64) string {
	ratios := c.turns(r, key{c.bench, "tarn", unit})
	if c.sense == atMost || len(ratios) == 0 || c.verdict(middle(ratios)) == c.verdict(v) {
		return ""
	}
	return fmt.Sprintf(" (median of the turns' ratios %s%s)", c.value(middle(ratios)), c.verdict(middle(ratios)))
}

func (c bar) verdict(v float64) string {
	meets := func(goal float64) bool {
		if c.sense == timesTheirs || c.sense == atMost {
			return v <= goal
		}
		return v >= goal
	}
	switch {
	case c.aim != none && meets(c.aim):
		return ", stretch target met"
	case meets(c.first):
		return ", target met"
	default:
		return ", **missed**"
	}
}

func (c bar) goal(v float64) string {
	if v == none {
		return ""
	}
	switch c.sense {
	case timesFaster, timesMore:
		return fmt.Sprintf("≥ %g×", v)
	case timesTheirs:
		return fmt.Sprintf("≤ %g×", v)
	default:
		return fmt.Sprintf("≤ %g", v)
	}
}

func (c bar) value(v float64) string {
	if c.sense == atMost {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.2f×", v)
}

func format(v float64, unit string) string {
	switch {
	case unit == "cpu-ns/op", unit == "p99-ns":
		return format(v, "ns/op")
	case unit == "ns/op" && v >= 1e6:
		return fmt.Sprintf("%.2f ms", v/1e6)
	case unit == "ns/op" && v >= 1e4:
		return fmt.Sprintf("%.1f µs", v/1e3)
	case unit == "ns/op" && v >= 100:
		return fmt.Sprintf("%.0f ns", v)
	case unit == "ns/op":
		return fmt.Sprintf("%.1f ns", v)
	case unit == "calls/s":
		return fmt.Sprintf("%.0f/s", v)
	case unit == "MB/s" && v >= 100:
		return fmt.Sprintf("%.0f MB/s", v)
	case unit == "MB/s":
		return fmt.Sprintf("%.1f MB/s", v)
	case strings.HasPrefix(unit, "B/") || strings.Contains(unit, "-B/"):
		return formatBytes(v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

func formatBytes(v float64) string {
	switch {
	case v >= 10<<20:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	case v >= 10<<10:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	default:
		return fmt.Sprintf("%.0f B", v)
	}
}
