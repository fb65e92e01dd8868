// Command idle opens many connections to one HTTP/2 server after another and prints, as Markdown, what a connection takes of the server's
// memory: after one request, and while a request waits for its response (a long poll); how long a connection that has been idle takes to
// answer; and the straight line to a million. Then it does the same for clients over TLS.
//
//	go run ./idle                            10,000 connections, clear text and TLS
//	go run ./idle -conns 2000 -turns 5       five turns with fewer
//	go run ./idle -only tls/h2http           cells whose name contains this
//
// Each server, and each client that is measured, runs in a process of its own. The figure is the live heap and the stacks, after two
// collections, once they have stopped falling. What the kernel holds for a connection is not in it. The last columns are of the resident set,
// which also has what the garbage collector has freed and not given back, and what the heap's size classes round up. The peer of a server is a bare
// net.Conn or crypto/tls.Conn that writes and reads frames.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/cputime"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("idle: ")
	if len(os.Args) > 2 {
		run := map[string]func([]string) error{"serve": serve, "client": runClient}[os.Args[1]]
		if run != nil {
			if err := run(os.Args[2:]); err != nil {
				log.Fatal(err)
			}
			return
		}
	}
	conns := flag.Int("conns", 10000, "connections to a server; to a client's server a fifth of it")
	turns := flag.Int("turns", 1, "turns")
	only := flag.String("only", "", "only cells whose name contains `this`")
	flag.Parse()
	measure(*conns, *turns, *only)
}

// cell is one line of the result.
type cell struct {
	security, name string
	idle, polling  []float64 // bytes a connection, of each turn
	resident       []float64 // bytes of the process's resident set an idle connection
	wake           []float64 // seconds until an idle connection has answered
}

func (c *cell) String() string { return c.security + "/" + c.name }

func measure(conns, turns int, only string) {
	var servers, clients []*cell
	for _, security := range []string{"plain", "tls"} {
		for _, name := range serverNames {
			if name == floor && security != "tls" {
				continue // net/http has no such function for clear text
			}
			servers = append(servers, &cell{security: security, name: name})
		}
	}
	for _, name := range clientNames {
		clients = append(clients, &cell{security: "tls client", name: name})
	}
	wanted := func(c *cell) bool { return strings.Contains(c.String(), only) }
	for turn := range turns {
		for _, c := range servers {
			if wanted(c) {
				log.Printf("turn %d: %v", turn+1, c)
				if err := c.measureServer(conns); err != nil {
					log.Printf("%v has no figure of this turn: %v", c, err)
				}
			}
		}
		for _, c := range clients {
			if wanted(c) {
				log.Printf("turn %d: %v", turn+1, c)
				if err := c.measureClient(conns / 5); err != nil {
					log.Printf("%v has no figure of this turn: %v", c, err)
				}
			}
		}
	}
	fmt.Printf("%s, %d processors, %s, %s, %d turns of %d connections; medians (lowest–highest). Shares are of net/http's, or of grpc-go's for rpc.\n\n",
		cputime.Model(), runtime.NumCPU(), runtime.Version(), time.Now().UTC().Format("2006-01-02 15:04 UTC"), turns, conns)
	fmt.Print("| server | idle, B | share | long poll, B | share | answers after | a million, idle / long poll | idle, resident, B | share |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range servers {
		if !wanted(c) || len(c.idle) == 0 {
			continue
		}
		peer := peerOf(servers, c)
		fmt.Printf("| %v | %s | %s | %s | %s | %s | %s / %s | %s | %s |\n", c, spread(c.idle, 1, ""), share(c.idle, peer.idle), spread(c.polling, 1, ""), share(c.polling, peer.polling),
			spread(c.wake, 1e6, " µs"), million(c.idle), million(c.polling), spread(c.resident, 1, ""), share(c.resident, peer.resident))
	}
	fmt.Print("\n| client | idle, B | share |\n|---|---:|---:|\n")
	for _, c := range clients {
		if wanted(c) && len(c.idle) > 0 {
			fmt.Printf("| %v | %s | %s |\n", c, spread(c.idle, 1, ""), share(c.idle, peerOf(clients, c).idle))
		}
	}
}

// peerOf is the cell that c is compared with.
func peerOf(all []*cell, c *cell) *cell {
	name := "net/http"
	if c.grpc() {
		name = "grpc-go"
	}
	return all[slices.IndexFunc(all, func(o *cell) bool { return o.name == name && o.security == c.security })]
}

// none is in the place of a figure that there is not.
const none = "–"

// spread is the median of v, and its range, times scale.
func spread(v []float64, scale float64, unit string) string {
	if len(v) == 0 {
		return none
	}
	return fmt.Sprintf("%.0f (%.0f–%.0f)%s", scale*median(v), scale*slices.Min(v), scale*slices.Max(v), unit)
}

// million is what a million connections take by the straight line.
func million(v []float64) string {
	if len(v) == 0 {
		return none
	}
	return fmt.Sprintf("%.1f GB", median(v)/1e3)
}

// share is the median of the ratios of the turns.
func share(v, of []float64) string {
	var ratios []float64
	for i := range min(len(v), len(of)) {
		ratios = append(ratios, v[i]/of[i])
	}
	if len(ratios) == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", median(ratios))
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// measureServer adds a turn's figures of a server.
func (c *cell) measureServer(n int) error {
	cmd, err := child.Self("serve", c.name, c.security)
	if err != nil {
		return err
	}
	server, err := child.Start(cmd)
	if err != nil {
		return err
	}
	defer server.Kill()
	before, err := memory(server)
	if err != nil {
		return err
	}
	residentBefore, err := server.Memory()
	if err != nil {
		return err
	}
	conns := make([]*conn, n)
	defer func() {
		for _, nc := range conns {
			if nc != nil {
				nc.Close()
			}
		}
	}()
	var config *tls.Config
	if c.security == "tls" {
		config = unverified
	}
	for i := range conns {
		if conns[i], err = dial(server.Addr, config); err != nil {
			return err
		}
		if c.name == floor { // answers nothing
			continue
		}
		if err := conns[i].call(c.calls()); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	idle, err := steady(server)
	if err != nil {
		return err
	}
	c.idle = append(c.idle, (idle-before)/float64(n))
	resident, err := server.Memory()
	if err != nil {
		return err
	}
	c.resident = append(c.resident, float64(resident.Now-residentBefore.Now)/float64(n))
	if c.name == floor {
		return nil
	}
	for i := range min(n, 200) {
		begun := time.Now()
		if err := conns[i*n/min(n, 200)].call(c.calls()); err != nil {
			return err
		}
		c.wake = append(c.wake, time.Since(begun).Seconds())
	}
	if len(c.wake) > 0 { // one figure a turn
		last := c.wake[len(c.wake)-min(n, 200):]
		c.wake = append(c.wake[:len(c.wake)-len(last)], median(last))
	}
	for i := range conns {
		if err := conns[i].poll(c.calls()); err != nil {
			return fmt.Errorf("long poll %d: %w", i, err)
		}
	}
	polling, err := steady(server)
	if err != nil {
		return err
	}
	c.polling = append(c.polling, (polling-before)/float64(n))
	return nil
}

// grpc reports whether the cell's server is one of gRPC.
func (c *cell) grpc() bool { return c.name == "rpc" || c.name == "grpc-go" }

// calls are the requests that the cell's server is sent.
func (c *cell) calls() calls {
	if c.grpc() {
		return overGRPC
	}
	return overHTTP
}

// measureClient adds a turn's figures of a client over TLS.
func (c *cell) measureClient(n int) error {
	server := "net/http"
	if c.grpc() {
		server = "grpc-go"
	}
	serve, err := child.Self("serve", server, "tls")
	if err != nil {
		return err
	}
	s, err := child.Start(serve)
	if err != nil {
		return err
	}
	defer s.Kill()
	cmd, err := child.Self("client", c.name, s.Addr, strconv.Itoa(n))
	if err != nil {
		return err
	}
	client, err := child.Start(cmd)
	if err != nil {
		return err
	}
	defer client.Kill()
	before, err := strconv.ParseFloat(client.Addr, 64)
	if err != nil {
		return err
	}
	idle, err := steady(client)
	if err != nil {
		return err
	}
	c.idle = append(c.idle, (idle-before)/float64(n))
	return nil
}

func memory(p *child.Process) (float64, error) {
	text, err := p.Ask()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// steady reads the memory of p until it has not fallen by more than 1 % for four seconds: a Tarn connection with a request that waits drops
// what it does not need after two and a half at most.
func steady(p *child.Process) (float64, error) {
	least, err := memory(p)
	for same := 0; same < 20 && err == nil; same++ {
		time.Sleep(200 * time.Millisecond)
		var now float64
		if now, err = memory(p); now < 0.99*least {
			same = 0
		}
		least = min(least, now)
	}
	return least, err
}
