package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"

	"github.com/tarn-go/tarn/internal/child"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
)

const (
	// attackFor bounds the duration of an attack on a server that reads slowly.
	attackFor = 10 * time.Second
	// callTimeout is the deadline of a healthy call: one that misses it counts as failed.
	callTimeout = 20 * time.Second
)

// measure starts a server that accepts connections of kind k and mounts a share of a on it.
func measure(self, name string, k kind, a attack, share float64) (cost, error) {
	p, err := child.Start(exec.Command(self, "serve", name, string(k)))
	if err != nil {
		return cost{}, err
	}
	defer p.Kill()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := newCaller(p.Addr, name, k)
	if err != nil {
		return cost{}, err
	}
	defer c.close()
	h := &healthy{caller: c, done: make(chan struct{})}
	if err := h.call(); err != nil {
		return cost{}, err
	}
	go h.run(ctx)
	before, err := p.Times()
	if err != nil {
		return cost{}, err
	}
	conns, steps := 0, 0
	if a.calls != nil {
		err = a.calls(c, max(int(share*float64(a.ops)), 10))
	} else {
		conns, steps, err = a.mount(target{p.Addr, k}, share)
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
	return cost{memory.Peak, after.Sub(before).Sum(), conns, steps, h.calls, h.failed, h.firstErr}, nil
}

// caller makes calls on a separate connection, as a correct client does.
type caller interface {
	// call is answered at once; wait lasts until ctx ends.
	call(ctx context.Context) error
	wait(ctx context.Context) error
	close()
}

// newCaller returns a caller on grpc-go's client for gRPC servers, and on net/http's for HTTP servers.
func newCaller(addr, server string, k kind) (caller, error) {
	// The certificate is made anew for each server.
	config := &tls.Config{InsecureSkipVerify: true}
	if server == "h2http" || server == "nethttp" {
		t := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols)}
		t.Protocols.SetHTTP2(k == overTLS)
		t.Protocols.SetUnencryptedHTTP2(k != overTLS)
		scheme := "http"
		if k == overTLS {
			scheme = "https"
		}
		return httpCaller{&http.Client{Transport: t}, scheme + "://" + addr + "/"}, nil
	}
	creds := insecure.NewCredentials()
	if k == overTLS {
		creds = credentials.NewTLS(config)
	}
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, err
	}
	return grpcCaller{cc, pb.NewTestServiceClient(cc)}, nil
}

type grpcCaller struct {
	cc     *grpc.ClientConn
	client pb.TestServiceClient
}

func (c grpcCaller) call(ctx context.Context) error {
	_, err := c.client.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, 100)}})
	return err
}

func (c grpcCaller) wait(ctx context.Context) error {
	_, err := c.client.EmptyCall(ctx, &pb.Empty{})
	return err
}

func (c grpcCaller) close() { c.cc.Close() }

type httpCaller struct {
	client *http.Client
	url    string
}

func (c httpCaller) post(ctx context.Context, method string, n int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+method, bytes.NewReader(make([]byte, n)))
	if err != nil {
		return err
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("attack: %s", resp.Status)
	}
	if m, err := io.Copy(io.Discard, resp.Body); err != nil || m != int64(n) {
		return fmt.Errorf("attack: %d of %d bytes came: %w", m, n, err)
	}
	return nil
}

func (c httpCaller) call(ctx context.Context) error { return c.post(ctx, "UnaryCall", 100) }
func (c httpCaller) wait(ctx context.Context) error { return c.post(ctx, "EmptyCall", 0) }
func (c httpCaller) close()                         { c.client.CloseIdleConnections() }

// healthy makes small calls during an attack, one every few milliseconds.
type healthy struct {
	caller        caller
	calls, failed int
	firstErr      error
	done          chan struct{}
}

func (h *healthy) call() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	return h.caller.call(ctx)
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
