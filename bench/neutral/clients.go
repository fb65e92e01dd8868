package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protowire"
)

// protocol is how a call is made.
type protocol string

const (
	grpcOverHTTP2    protocol = "grpc"
	connectOverHTTP2 protocol = "connect"
	httpPlain        protocol = "http"  // a GET of /SIZE
	httpTLS          protocol = "https" // the same over TLS
)

// load is calls that a client makes.
type load struct {
	dir            string // for a client's files
	addr           string
	protocol       protocol
	size           int // of the payload, in bytes
	conns, streams int // streams on each connection
	calls          int
}

// client makes the calls of a load, in a separate process.
type client func(context.Context, load) error

func h2load(ctx context.Context, l load) error {
	args := []string{"-n", strconv.Itoa(l.calls), "-c", strconv.Itoa(l.conns), "-m", strconv.Itoa(l.streams), "-w", "24", "-W", "26"}
	target := "http://" + l.addr + "/grpc.testing.TestService/UnaryCall"
	switch l.protocol {
	case httpPlain, httpTLS:
		target = fmt.Sprintf("%s://%s/%d", l.protocol, l.addr, l.size)
	default:
		body := request(l.size)
		args = append(args, "-H", "content-type: application/proto", "-H", "connect-protocol-version: 1")
		if l.protocol == grpcOverHTTP2 {
			body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
			args = append(args[:len(args)-4], "-H", "content-type: application/grpc", "-H", "te: trailers")
		}
		file := filepath.Join(l.dir, fmt.Sprint(l.protocol, l.size))
		if err := os.WriteFile(file, body, 0o600); err != nil {
			return err
		}
		args = append(args, "-d", file)
	}
	out, err := exec.CommandContext(ctx, "h2load", append(args, target)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("h2load: %w: %s", err, out)
	}
	if !strings.Contains(string(out), fmt.Sprintf("%d succeeded, 0 failed", l.calls)) {
		return fmt.Errorf("h2load: not every call succeeded: %s", out)
	}
	return nil
}

// request is the request of the test service's UnaryCall with a payload of size bytes.
func request(size int) []byte {
	payload := protowire.AppendTag(nil, 2, protowire.BytesType)
	payload = protowire.AppendBytes(payload, make([]byte, size))
	msg := protowire.AppendTag(nil, 3, protowire.BytesType)
	return protowire.AppendBytes(msg, payload)
}

// order is the description of a load for the process that makes it.
type order struct {
	Addr                        string
	Size, Conns, Streams, Calls int
}

// grpcClient has this program make the calls by grpc-go.
func grpcClient(ctx context.Context, l load) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o, err := json.Marshal(order{l.addr, l.size, l.conns, l.streams, l.calls})
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, self, "call", string(o)).CombinedOutput(); err != nil {
		return fmt.Errorf("the client: %w: %s", err, out)
	}
	return nil
}

// call makes the calls of an order.
func call(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, o.Conns*o.Streams)
	for i := range o.Conns {
		const window = 16 << 20
		cc, err := grpc.NewClient("passthrough:///"+o.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
		if err != nil {
			return err
		}
		defer cc.Close()
		for k := range o.Streams {
			n := i*o.Streams + k
			mine := o.Calls*(n+1)/len(errs) - o.Calls*n/len(errs)
			wg.Go(func() { errs[n] = callOften(cc, o.Size, mine) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

func callOften(cc *grpc.ClientConn, size, calls int) error {
	c := pb.NewTestServiceClient(cc)
	req := &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, size)}}
	for range calls {
		resp, err := c.UnaryCall(context.Background(), req)
		if err != nil {
			return err
		}
		if n := len(resp.GetPayload().GetBody()); n != size {
			return fmt.Errorf("%d bytes came back, not %d", n, size)
		}
	}
	return nil
}
