package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tarn-go/tarn/internal/freeport"
)

// etcdWork is a run of etcd's benchmark.
type etcdWork struct {
	name string
	args []string
	of   string // the summary that is read of its output; "": its only one
}

func etcdWorks(total int) []etcdWork {
	n := strconv.Itoa(total)
	return []etcdWork{
		{"put of 256 B", []string{"put", "--clients=64", "--conns=8", "--total=" + n, "--val-size=256", "--key-space-size=10000"}, ""},
		{"range, linearizable", []string{"range", "key", "--clients=64", "--conns=8", "--total=" + n}, ""},
		{"range, serializable", []string{"range", "key", "--clients=64", "--conns=8", "--total=" + n, "--consistency=s"}, ""},
		{"watch: events", []string{"watch", "--clients=8", "--conns=8", "--streams=16", "--watch-per-stream=10", "--put-total=" + strconv.Itoa(total/20)}, "Watch events received summary"},
	}
}

type etcdCell struct{ rate, p50, p99, servers, client, memory figures }

func measureEtcd(dir string, turns, total int, profiles profiler) error {
	type key struct {
		members int
		work    string
	}
	cells := map[key]*etcdCell{}
	for turn, profiles := range profiles.turns(turns) {
		for _, members := range []int{1, 3} {
			sides := []string{"stock", "moved"}
			if turn%2 == 1 {
				sides[0], sides[1] = sides[1], sides[0]
			}
			for _, side := range sides {
				log.Printf("turn %d: %d members, %s", turn+1, members, side)
				c, err := startEtcd(filepath.Join(dir, side, "server"), members)
				if err != nil {
					return err
				}
				for _, w := range etcdWorks(total) {
					k := key{members, w.name}
					if cells[k] == nil {
						cells[k] = new(etcdCell)
					}
					if err := c.measure(filepath.Join(dir, side, "benchmark"), side, w, cells[k], profiles); err != nil {
						c.stop()
						return fmt.Errorf("%s, %s: %w", side, w.name, err)
					}
				}
				c.stop()
			}
		}
	}
	printHead(turns)
	fmt.Print("| members, requests | | stock | moved | ratio |\n|---|---|---:|---:|---:|\n")
	for _, members := range []int{1, 3} {
		for _, w := range etcdWorks(total) {
			c := cells[key{members, w.name}]
			fmt.Printf("| %d, %s | a second | %s |\n", members, w.name, c.rate.row("%.0f"))
			if w.of == "" { // the summary of events has no latencies
				fmt.Printf("| | p50, ms | %s |\n| | p99, ms | %s |\n", c.p50.row("%.2f"), c.p99.row("%.2f"))
			}
			fmt.Printf("| | servers' processor time, s | %s |\n| | client's, s | %s |\n| | servers' memory, MB | %s |\n", c.servers.row("%.2f"), c.client.row("%.2f"), c.memory.row("%.0f"))
		}
	}
	return nil
}

// cluster is running members of etcd.
type cluster struct {
	dir     string
	clients []string // addresses
	members []*exec.Cmd
	ports   []*freeport.Port
}

func startEtcd(program string, members int) (*cluster, error) {
	dir, err := os.MkdirTemp("", "programs-etcd")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir}
	var peers, initial []string
	address := func() string {
		p, err2 := freeport.Reserve()
		if err2 != nil {
			err = err2
			return ""
		}
		c.ports = append(c.ports, p)
		return p.Addr()
	}
	for i := range members {
		c.clients, peers = append(c.clients, address()), append(peers, address())
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, peers[i]))
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	for i := range members {
		cmd := exec.Command(program, "--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(dir, fmt.Sprint(i)),
			"--listen-client-urls", "http://"+c.clients[i], "--advertise-client-urls", "http://"+c.clients[i],
			"--listen-peer-urls", "http://"+peers[i], "--initial-advertise-peer-urls", "http://"+peers[i],
			"--initial-cluster", strings.Join(initial, ","), "--log-level", "error", "--unsafe-no-fsync", "--enable-pprof")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			c.stop()
			return nil, err
		}
		c.members = append(c.members, cmd)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var err error
		for _, a := range c.clients {
			nc, dialErr := net.Dial("tcp", a)
			if dialErr == nil {
				nc.Close()
			}
			err = errors.Join(err, dialErr)
		}
		if err == nil {
			return c, nil
		}
		if time.Now().After(deadline) {
			c.stop()
			return nil, err
		}
	}
}

func (c *cluster) stop() {
	for _, m := range c.members {
		_ = m.Process.Kill()
		_ = m.Wait() // it was killed
	}
	for _, p := range c.ports {
		p.Release()
	}
	os.RemoveAll(c.dir)
}

// used is the usage of all members together.
func (c *cluster) used() (usage, error) {
	var sum usage
	for _, m := range c.members {
		u, err := used(m.Process.Pid)
		if err != nil {
			return sum, err
		}
		sum.processor += u.processor
		sum.resident += u.resident
	}
	return sum, nil
}

func (c *cluster) measure(program, side string, w etcdWork, to *etcdCell, profiles profiler) error {
	before, err := c.used()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, append([]string{"--endpoints=" + strings.Join(c.clients, ","), "--precise"}, w.args...)...)
	var out []byte
	err = profiles.during(func() (err error) { out, err = cmd.CombinedOutput(); return err }, c.clients[0], fmt.Sprintf("%d-%s-%s", len(c.members), strings.NewReplacer(" ", "-", ",", "", ":", "").Replace(w.name), side))
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if profiles.writes() {
		return nil
	}
	after, err := c.used()
	if err != nil {
		return err
	}
	text := string(out)
	if w.of != "" {
		_, rest, ok := strings.Cut(text, w.of)
		if !ok {
			return fmt.Errorf("no %q in %s", w.of, out)
		}
		text = rest
	}
	for _, q := range []struct {
		to      *figures
		pattern string
		scale   float64
	}{{&to.rate, `Requests/sec:\s+([0-9.e+-]+)`, 1}, {&to.p50, `50% in ([0-9.e+-]+) secs`, 1e3}, {&to.p99, `99% in ([0-9.e+-]+) secs`, 1e3}} {
		m := regexp.MustCompile(q.pattern).FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("no %q in %s", q.pattern, out)
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return err
		}
		q.to.add(side, v*q.scale)
	}
	to.servers.add(side, (after.processor - before.processor).Seconds())
	to.client.add(side, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	to.memory.add(side, after.resident)
	return nil
}
