// Command decode has h2load, a client of another project, send batches of 100 log records to one server after another, and prints the
// processor time that each server takes for a call, and what it allocates, as a table in Markdown:
//
//	go run ./decode                          every server, five turns
//	go run ./decode -turns 7 -only hyper     those whose name contains a part, and grpc-go
//
// A record has six strings and a map of four; a batch has 34 KB. The handler counts the records, or, where the name ends in "read", the
// bytes of all strings, and answers with two numbers. Each server runs in a separate process; its time is what the system
// accounts to it between the first call and the last. Each turn measures all servers, so that a period in which the machine is slow does
// not affect one server alone. Ratios are those of the same turn. Linux only: it reads /proc. h2load is Debian's nghttp2-client.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/bench/decode/logs"
	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/cputime"
	"google.golang.org/protobuf/proto"
)

func main() {
	log.SetFlags(0)
	name := flag.String("server", "", "be the server of this `name`, until standard input ends")
	turns := flag.Int("turns", 5, "turns")
	seconds := flag.Float64("seconds", 2, "about how long one measurement takes")
	only := flag.String("only", "", "measure servers whose name contains this `part`, and grpc-go")
	flag.Parse()
	var err error
	if *name != "" {
		err = serve(*name)
	} else {
		err = table(*only, *turns, *seconds)
	}
	if err != nil {
		log.Fatal("decode: ", err)
	}
}

const (
	records = 100
	path    = "/tarn.bench.decode.Logs/Export"
)

// batch is what a client sends.
func batch() *logs.Batch {
	b := new(logs.Batch)
	for i := range records {
		b.Records = append(b.Records, &logs.Record{
			Service: fmt.Sprintf("checkout-%d", i%7),
			Host:    fmt.Sprintf("node-%02d.eu-west-1.compute.internal", i%40),
			Level:   []string{"INFO", "WARN", "ERROR"}[i%3],
			Logger:  fmt.Sprintf("com.example.shop.orders.Handler%d", i%5),
			Trace:   fmt.Sprintf("%032x", i*7919),
			Message: fmt.Sprintf("order %d of customer %d was accepted after %d ms", 100000+i, 4000+i, i),
			Attributes: map[string]string{
				"http.method": "POST",
				"http.target": fmt.Sprintf("/api/v1/orders/%d", i),
				"k8s.pod":     fmt.Sprintf("checkout-7d9f8b6c5-%05d", i),
				"region":      "eu-west-1",
			},
		})
	}
	return b
}

// framed is a request of a unary call of gRPC.
func framed(m proto.Message) ([]byte, error) {
	b, err := proto.Marshal(m)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...), err
}

// measurement is what one run of h2load cost a server, a call.
type measurement struct {
	micros, allocations, kilobytes float64
}

func table(only string, turns int, seconds float64) error {
	if _, err := exec.LookPath("h2load"); err != nil {
		return errors.New("h2load is not installed (Debian: nghttp2-client)")
	}
	dir, err := os.MkdirTemp("", "decode")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	request, err := framed(batch())
	if err != nil {
		return err
	}
	body := filepath.Join(dir, "body")
	if err := os.WriteFile(body, request, 0o600); err != nil {
		return err
	}
	var names []string
	for _, c := range contestants {
		if c.name == contestants[0].name || strings.Contains(c.name, only) {
			names = append(names, c.name)
		}
	}
	got := map[string][]measurement{}
	for turn := range turns {
		for i := range names {
			name := names[(i+turn)%len(names)]
			m, err := measure(name, body, seconds)
			if err != nil {
				return fmt.Errorf("%s, turn %d: %w", name, turn+1, err)
			}
			got[name] = append(got[name], m)
		}
	}
	fmt.Printf("%s %s/%s, %s, %d processors, %s. A batch of %d records, %d bytes; %d turns: medians and ranges.\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		cputime.Model(), runtime.NumCPU(), time.Now().UTC().Format("2006-01-02 15:04 UTC"), records, len(request), turns)
	fmt.Println("| server | processor time, µs a call | of grpc-go | allocations a call | KB a call |\n|---|---:|---:|---:|---:|")
	for _, name := range names {
		own, peer := got[name], got[contestants[0].name]
		var share []float64
		for i := range own {
			share = append(share, own[i].micros/peer[i].micros)
		}
		fmt.Printf("| %s | %s | %s | %.0f | %.1f |\n", name,
			spread(values(own, func(m measurement) float64 { return m.micros }), 1), spread(share, 2),
			middle(values(own, func(m measurement) float64 { return m.allocations })),
			middle(values(own, func(m measurement) float64 { return m.kilobytes })))
	}
	return nil
}

func values(all []measurement, of func(measurement) float64) []float64 {
	var v []float64
	for _, m := range all {
		v = append(v, of(m))
	}
	return v
}

func middle(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// spread prints the median and the range.
func spread(v []float64, digits int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, middle(v), digits, slices.Min(v), digits, slices.Max(v))
}

// load has h2load make so many calls.
func load(ctx context.Context, addr, body string, calls int) error {
	out, err := exec.CommandContext(ctx, "h2load", "-n", strconv.Itoa(calls), "-c", "4", "-m", "8", "-d", body,
		"-H", "content-type: application/grpc", "-H", "te: trailers", "http://"+addr+path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("h2load: %w: %s", err, out)
	}
	if !strings.Contains(string(out), fmt.Sprintf("%d succeeded, 0 failed", calls)) {
		return fmt.Errorf("h2load: not every call succeeded: %s", out)
	}
	return nil
}

// measure starts a server, warms it up, and has h2load load it for about so many seconds.
func measure(name, body string, seconds float64) (measurement, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd, err := child.Self("-server", name)
	if err != nil {
		return measurement{}, err
	}
	p, err := child.Start(cmd)
	if err != nil {
		return measurement{}, err
	}
	defer p.Kill()
	calls := 256
	for begun := time.Now(); ; begun = time.Now() { // until it is known how many calls a second there are
		if err := load(ctx, p.Addr, body, calls); err != nil {
			return measurement{}, err
		}
		took := time.Since(begun).Seconds()
		if took >= seconds/4 {
			calls = max(int(float64(calls)*seconds/took), calls)
			break
		}
		calls *= 4
	}
	before, err := readCounts(p)
	if err != nil {
		return measurement{}, err
	}
	if err := load(ctx, p.Addr, body, calls); err != nil {
		return measurement{}, err
	}
	after, err := readCounts(p)
	if err != nil {
		return measurement{}, err
	}
	n := float64(calls)
	return measurement{
		micros:      float64(after.Times.Sub(before.Times).Sum().Microseconds()) / n,
		allocations: float64(after.mallocs-before.mallocs) / n,
		kilobytes:   float64(after.bytes-before.bytes) / n / 1000,
	}, nil
}

// counts are what a server has used since its start.
type counts struct {
	child.Times
	mallocs, bytes uint64
}

// readCounts asks the process.
func readCounts(p *child.Process) (counts, error) {
	var c counts
	line, err := p.Ask()
	if err != nil {
		return c, err
	}
	if _, err := fmt.Sscan(line, &c.mallocs, &c.bytes); err != nil {
		return c, err
	}
	c.Times, err = p.Times()
	return c, err
}
