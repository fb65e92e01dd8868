package main

import (
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

// conn is a connection to a server, without a goroutine.
type conn struct {
	net.Conn
	fr   *http2.Framer
	next uint32 // stream
}

func dial(addr string, secure bool) (*conn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if secure {
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	c := &conn{Conn: nc, fr: http2.NewFramer(nc, nc), next: 1}
	if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
		return nil, err
	}
	return c, c.fr.WriteSettings()
}

// send writes a request for what answers at once, or for what does not answer.
func (c *conn) send(path string, grpc bool) (stream uint32, err error) {
	var block headers
	enc := hpack.NewEncoder(&block)
	method := "GET"
	if grpc {
		method = "POST"
	}
	for _, f := range [][2]string{{":method", method}, {":scheme", "http"}, {":authority", "localhost"}, {":path", path}} {
		enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	if grpc {
		enc.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/grpc"})
		enc.WriteField(hpack.HeaderField{Name: "te", Value: "trailers"})
	}
	stream = c.next
	c.next += 2
	if err := c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true, EndStream: !grpc}); err != nil || !grpc {
		return stream, err
	}
	return stream, c.fr.WriteData(stream, true, make([]byte, 5)) // an empty message
}

type headers []byte

func (h *headers) Write(p []byte) (int, error) { *h = append(*h, p...); return len(p), nil }

// call makes a request and reads until its response has ended.
func (c *conn) call(grpc bool) error {
	path := "/"
	if grpc {
		path = "/grpc.testing.TestService/EmptyCall"
	}
	stream, err := c.send(path, grpc)
	if err != nil {
		return err
	}
	return c.read(func(f http2.Frame) bool {
		return f.Header().StreamID == stream && f.Header().Flags.Has(http2.FlagDataEndStream) // DATA's, and HEADERS'
	})
}

// poll makes a request that is not answered, and a PING after it, so that the server has got the request when poll returns.
func (c *conn) poll(grpc bool) error {
	path := "/wait"
	if grpc {
		path = "/grpc.testing.TestService/UnaryCall"
	}
	if _, err := c.send(path, grpc); err != nil {
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
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
	before := memoryInUse()
	all := make([]any, n)
	for i := range all {
		if all[i], err = connect(args[0], args[1], config); err != nil {
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
