package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/tarn-go/tarn/bench/internal/child"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

const (
	// attackFor bounds an attack in time, should the server be slow to take it in.
	attackFor = 10 * time.Second
	// callTimeout is the deadline of a healthy call: one that misses it counts as failed.
	callTimeout = 20 * time.Second
)

// measure starts a server and mounts a on it with so many steps.
func measure(self, name string, a attack, ops int) (cost, error) {
	p, err := child.Start(exec.Command(self, "serve", name))
	if err != nil {
		return cost{}, err
	}
	defer p.Kill()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cc, err := grpc.NewClient(p.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return cost{}, err
	}
	defer cc.Close()
	h := &healthy{client: pb.NewTestServiceClient(cc), done: make(chan struct{})}
	if err := h.call(); err != nil {
		return cost{}, err
	}
	go h.run(ctx)
	before, err := p.Times()
	if err != nil {
		return cost{}, err
	}
	conns := 0
	if a.calls != nil {
		err = a.calls(h.client, ops)
	} else {
		conns, err = a.mount(p.Addr, ops)
	}
	if err != nil {
		return cost{}, err
	}
	after, err := p.Times()
	if err != nil {
		return cost{}, err
	}
	memory, err := p.Memory()
	if err != nil {
		return cost{}, err
	}
	cancel()
	<-h.done
	return cost{memory.Peak, after.Sub(before).Sum(), conns, h.calls, h.failed, h.firstErr}, nil
}

// healthy makes small calls beside an attack, one every few milliseconds.
type healthy struct {
	client        pb.TestServiceClient
	calls, failed int
	firstErr      error
	done          chan struct{}
}

func (h *healthy) call() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := h.client.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}})
	return err
}

func (h *healthy) run(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		h.calls++
		if err := h.call(); err != nil {
			h.failed++
			if h.firstErr == nil {
				h.firstErr = err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
