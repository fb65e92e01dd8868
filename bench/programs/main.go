// Command programs measures whole programs that were moved from grpc-go to package rpc, beside themselves as they are, and prints Markdown.
// Shell scripts build them first:
//
//	./programs/etcd.sh        etcd, with its own benchmark: put, range, watch; one and three members
//	./programs/collector.sh   the OpenTelemetry Collector's receiver of OTLP, over gRPC and HTTP
//
// Sides take turns, so that a period in which the machine is slow does not affect one alone. Processor time and memory are those of the
// servers' processes, read from /proc. With -profiles a further turn, which does not count, writes where the servers' processor time goes:
// `go tool pprof -http=: FILE` draws that as a flame graph.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/internal/cputime"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("programs: ")
	turns := flag.Int("turns", 5, "turns")
	etcd := flag.String("etcd", "", "`folder` with stock/ and moved/, each with etcd's server and benchmark")
	total := flag.Int("total", 20000, "requests of a measurement of etcd")
	collector := flag.String("collector", "", "`folder` with stock/collector and moved/collector")
	batches := flag.Int("batches", 2000, "batches of a measurement of the collector")
	profiles := flag.String("profiles", "", "`folder` that gets a profile of each side and kind of request")
	flag.Parse()
	var err error
	switch {
	case *etcd != "":
		err = measureEtcd(*etcd, *turns, *total, profiler{*profiles})
	case *collector != "":
		err = measureCollector(*collector, *turns, *batches, profiler{*profiles})
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func printHead(turns int) {
	fmt.Printf("%s, %d processors, %s, %s, %d turns; medians (lowest–highest). A ratio is the median of the turns' ratios of moved to stock.\n\n",
		cputime.Model(), runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format("2006-01-02 15:04 UTC"), turns)
}

// figures are the values of one quantity, of each side and turn.
type figures struct{ stock, moved []float64 }

func (f *figures) add(side string, v float64) {
	if side == "stock" {
		f.stock = append(f.stock, v)
	} else {
		f.moved = append(f.moved, v)
	}
}

// row is the cells of a table: stock, moved, ratio.
func (f *figures) row(format string) string {
	var ratios []float64
	for i := range min(len(f.stock), len(f.moved)) {
		if f.stock[i] > 0 {
			ratios = append(ratios, f.moved[i]/f.stock[i])
		}
	}
	return fmt.Sprintf("%s | %s | **%s**", spread(f.stock, format), spread(f.moved, format), spread(ratios, "%.2f"))
}

func spread(v []float64, format string) string {
	if len(v) == 0 {
		return "–"
	}
	s := slices.Sorted(slices.Values(v))
	return fmt.Sprintf(format+" ("+format+"–"+format+")", (s[(len(s)-1)/2]+s[len(s)/2])/2, s[0], s[len(s)-1])
}

// usage is what a process has used.
type usage struct {
	processor time.Duration
	resident  float64 // now, in MB
}

// used reads the usage of a process: user and system time in ticks of 10 ms.
func used(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	if len(f) < 22 {
		return usage{}, fmt.Errorf("/proc/%d/stat is %q", pid, stat)
	}
	var n [3]float64
	for i, at := range []int{11, 12, 21} {
		if n[i], err = strconv.ParseFloat(f[at], 64); err != nil {
			return usage{}, err
		}
	}
	return usage{time.Duration(n[0]+n[1]) * 10 * time.Millisecond, n[2] * float64(os.Getpagesize()) / 1e6}, nil
}

// profiler writes processors' profiles of servers to a folder; with none it does nothing.
type profiler struct{ dir string }

// turns are n that count, each with a profiler that does nothing, and one more for profiles.
func (p profiler) turns(n int) []profiler {
	turns := make([]profiler, n)
	if p.writes() {
		turns = append(turns, p)
	}
	return turns
}

// writes reports whether there are profiles: then a measurement does not count.
func (p profiler) writes() bool { return p.dir != "" }

// during calls f, and meanwhile asks the server at addr for a profile.
func (p profiler) during(f func() error, addr, name string) error {
	if !p.writes() {
		return f()
	}
	got := make(chan error, 1)
	go func() { got <- p.fetch(addr, name) }()
	if err := f(); err != nil {
		return err
	}
	return <-got
}

func (p profiler) fetch(addr, name string) error {
	resp, err := http.Get("http://" + addr + "/debug/pprof/profile?seconds=3")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, b)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, name+".pb.gz"), b, 0o644)
}
