package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
)

// unverified is the configuration of clients over TLS.
var unverified = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}

// conn is a connection to a server, without a goroutine.
type conn struct {
	net.Conn
	fr   *http2.Framer
	next uint32 // stream
}

// dial connects to a server, over TLS unless config is nil.
func dial(addr string, config *tls.Config) (*conn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if config != nil {
		nc = tls.Client(nc, config)
	}
	c := &conn{Conn: nc, fr: http2.NewFramer(nc, nc), next: 1}
	if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
		return nil, err
	}
	return c, c.fr.WriteSettings()
}

// calls are the requests that a server is sent.
type calls struct {
	method         string
	answers, waits string // paths: of what answers at once, and of what does not answer
	fields         []hpack.HeaderField
	message        []byte // nil: the request has no content
}

var (
	overHTTP = calls{method: "GET", answers: "/", waits: "/wait"}
	overGRPC = calls{method: "POST", answers: "/grpc.testing.TestService/EmptyCall", waits: "/grpc.testing.TestService/UnaryCall",
		fields: []hpack.HeaderField{{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}, message: make([]byte, 5)} // an empty one
)

// send writes a request.
func (c *conn) send(k calls, path string) (stream uint32, err error) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range append([]hpack.HeaderField{{Name: ":method", Value: k.method}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "localhost"}, {Name: ":path", Value: path}}, k.fields...) {
		enc.WriteField(f)
	}
	stream = c.next
	c.next += 2
	if err := c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: k.message == nil}); err != nil || k.message == nil {
		return stream, err
	}
	return stream, c.fr.WriteData(stream, true, k.message)
}

// call makes a request and reads until its response has ended.
func (c *conn) call(k calls) error {
	stream, err := c.send(k, k.answers)
	if err != nil {
		return err
	}
	return c.read(func(f http2.Frame) bool {
		return f.Header().StreamID == stream && f.Header().Flags.Has(http2.FlagDataEndStream) // DATA's, and HEADERS'
	})
}

// poll makes a request that is not answered, and a PING after it, so that the server has got the request when poll returns.
func (c *conn) poll(k calls) error {
	if _, err := c.send(k, k.waits); err != nil {
		return err
	}
	if err := c.fr.WritePing(false, [8]byte{1}); err != nil {
		return err
	}
	return c.read(func(f http2.Frame) bool {
		return f.Header().Type == http2.FramePing && f.Header().Flags.Has(http2.FlagPingAck)
	})
}

// read reads frames, and answers those that want an answer, until one is the last.
func (c *conn) read(last func(http2.Frame) bool) error {
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			return err
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = c.fr.WritePing(true, f.Data)
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return fmt.Errorf("the server sent %v", f)
		}
		if err != nil || last(f) {
			return err
		}
	}
}

var clientNames = []string{"h2http", "net/http", "rpc", "grpc-go"}

// runClient makes connections over TLS, each by a client of its own, and one request on each. It prints its memory before, and then for
// each line that it reads.
func runClient(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	before := memoryInUse()
	all := make([]any, n)
	for i := range all {
		if all[i], err = connect(args[0], args[1], unverified.Clone()); err != nil {
			return err
		}
	}
	err = answer(fmt.Sprintf("%.0f", before))
	runtime.KeepAlive(all)
	return err
}

// connect returns a client with an idle connection.
func connect(name, addr string, config *tls.Config) (any, error) {
	switch name {
	case "h2http":
		return get(&h2http.Transport{TLSClientConfig: config}, addr)
	case "net/http":
		return get(&http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}, addr)
	case "rpc":
		cc, err := rpc.NewClient("passthrough:///"+addr, rpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			return nil, err
		}
		_, err = pb.NewTestServiceClient(cc).EmptyCall(context.Background(), new(pb.Empty))
		return cc, err
	case "grpc-go":
		cc, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			return nil, err
		}
		_, err = pb.NewTestServiceClient(cc).EmptyCall(context.Background(), new(pb.Empty))
		return cc, err
	}
	return nil, fmt.Errorf("there is no client %q", name)
}

func get(rt http.RoundTripper, addr string) (any, error) {
	resp, err := (&http.Client{Transport: rt}).Get("https://" + addr)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.ProtoMajor != 2 {
		err = fmt.Errorf("the response is of %s", resp.Proto)
	}
	return rt, err
}
