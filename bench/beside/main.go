// Command beside measures what 64 short responses wait for beside a long one on the same connection, and prints a table in Markdown: of
// h2http's server and of net/http's, with net/http's client, in turns.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tarn-go/tarn/h2http"
)

// streams is how many short responses there are at a time.
const streams = 64

// rounds is how often they are asked for in a turn.
const rounds = 5

func main() {
	turns := flag.Int("turns", 7, "turns of each server")
	flag.Parse()
	if err := table(*turns); err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
}

// stack is a kind of server.
type stack struct {
	name  string
	serve func(*http.Server, net.Listener) error
}

var stacks = []stack{
	{"net/http", func(srv *http.Server, l net.Listener) error { return srv.Serve(l) }},
	{"h2http", func(srv *http.Server, l net.Listener) error { return h2http.Serve(l, srv) }},
}

// times is what a turn has measured, of the responses to each round.
type times struct {
	middle, last time.Duration // medians of the rounds
	long         float64       // bytes of the long response a second
}

func table(turns int) error {
	fmt.Printf("%s, %d processors, %d short responses beside a long one, net/http's client on one connection, %d turns of %d rounds each: medians of the turns and their range.\n\n",
		runtime.Version(), runtime.NumCPU(), streams, turns, rounds)
	fmt.Println("| short responses | server | half of them within | all within | of net/http's | long response, MB/s |")
	fmt.Println("|---:|---|---:|---:|---:|---:|")
	for _, size := range []int{100, 10_000, 100_000, 200_000} {
		got := make([][]times, len(stacks))
		for range turns {
			for i, s := range stacks {
				t, err := measure(s, size)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				got[i] = append(got[i], t)
			}
		}
		for i, s := range stacks {
			fmt.Printf("| %d B | %s | %s | %s | %s | %.0f |\n", size, s.name, spread(got[i], func(t times) float64 { return ms(t.middle) }, "%.2f ms"),
				spread(got[i], func(t times) float64 { return ms(t.last) }, "%.2f ms"), share(got[i], got[0]), mid(got[i], func(t times) float64 { return t.long / 1e6 }))
		}
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func sorted(all []times, of func(times) float64) []float64 {
	var v []float64
	for _, t := range all {
		v = append(v, of(t))
	}
	slices.Sort(v)
	return v
}

func mid(all []times, of func(times) float64) float64 { v := sorted(all, of); return v[len(v)/2] }

// spread prints the median of the turns and their range.
func spread(all []times, of func(times) float64, format string) string {
	v := sorted(all, of)
	return fmt.Sprintf(format+" ("+format+"–"+format+")", v[len(v)/2], v[0], v[len(v)-1])
}

// share prints how long the last response takes as a share of a peer's in the same turn.
func share(own, peer []times) string {
	var v []float64
	for i := range own {
		v = append(v, float64(own[i].last)/float64(peer[i].last))
	}
	slices.Sort(v)
	return fmt.Sprintf("%.2f (%.2f–%.2f)", v[len(v)/2], v[0], v[len(v)-1])
}

// measure starts a server, reads a response without end, and asks for the short ones meanwhile.
func measure(s stack, size int) (times, error) {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return times{}, err
	}
	body := make([]byte, 1<<20)
	srv := &http.Server{Protocols: p, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := strconv.Atoi(r.URL.Path[1:]); err == nil {
			w.Write(body[:n])
			return
		}
		for r.Context().Err() == nil {
			if _, err := w.Write(body); err != nil {
				return
			}
		}
	})}
	go s.serve(srv, l) // ends with Close
	defer srv.Close()
	t := &http.Transport{Protocols: p}
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t}
	url := "http://" + l.Addr().String() + "/"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"long", nil)
	if err != nil {
		return times{}, err
	}
	long, err := client.Do(r)
	if err != nil {
		return times{}, err
	}
	defer long.Body.Close()
	if _, err := io.CopyN(io.Discard, long.Body, 64<<20); err != nil { // windows have grown
		return times{}, err
	}
	begun := time.Now()
	read := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, long.Body)
		read <- n
	}()
	var middles, lasts []time.Duration
	for range rounds {
		all, err := shorts(client, url+strconv.Itoa(size))
		if err != nil {
			return times{}, err
		}
		middles, lasts = append(middles, all[streams/2]), append(lasts, all[streams-1])
	}
	cancel()
	n := <-read
	slices.Sort(middles)
	slices.Sort(lasts)
	return times{middles[rounds/2], lasts[rounds/2], float64(n) / time.Since(begun).Seconds()}, nil
}

// shorts makes the requests for short responses at the same time, and returns how long each took, in order.
func shorts(client *http.Client, url string) ([]time.Duration, error) {
	all := make([]time.Duration, streams)
	errs := make([]error, streams)
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			begun := time.Now()
			errs[i] = get(client, url)
			all[i] = time.Since(begun)
		})
	}
	wg.Wait()
	slices.Sort(all)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func get(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
