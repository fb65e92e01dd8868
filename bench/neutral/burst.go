package main

import (
	"context"
	"fmt"
	"time"
)

// burst prints a server's resident memory before and ten seconds after 256 calls of size bytes on 64 streams of one
// connection, as a benchmark's line.
func burst(dir string, c contestant, size int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p, err := start(ctx, dir, c)
	if err != nil {
		return err
	}
	defer p.Kill()
	load := load{dir: dir, addr: p.Addr, protocol: grpcOverHTTP2, size: 100, conns: 1, streams: 64, calls: 256}
	if err := h2load(ctx, load); err != nil {
		return err
	}
	base, err := p.Memory()
	if err != nil {
		return err
	}
	load.size = size
	if err := h2load(ctx, load); err != nil {
		return err
	}
	time.Sleep(10 * time.Second)
	after, err := p.Memory()
	if err != nil {
		return err
	}
	fmt.Printf("BenchmarkBurst/size=%d/peer=%s \t%8d\t%12d base-B\t%12d peak-B\t%12d after-B\t%8.2f after/base\n",
		size, c.name, load.calls, base.Now, after.Peak, after.Now, float64(after.Now)/float64(base.Now))
	return nil
}
