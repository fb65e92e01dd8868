package main

import (
	"net"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

// canned is a server on package h2 that answers each request with a response that it has made before. It decodes and
// encodes no messages and has neither net/http's objects nor a protocol's rules: what it costs, every server on
// package h2 costs.
type canned struct {
	message, framed []byte
	from            answering
}

// answering is which goroutine sends a canned response.
type answering uint8

const (
	onReader    answering = iota // the one that reads the connection, which may not wait for a handler
	onGoroutine                  // one of the call, which may wait as handlers do
)

var (
	responseGRPC    = h2.NewBlock(h2.Field{Name: ":status", Value: "200"}, h2.Field{Name: "content-type", Value: "application/grpc+proto"})
	responseConnect = h2.NewBlock(h2.Field{Name: ":status", Value: "200"}, h2.Field{Name: "content-type", Value: "application/proto"})
	statusOK        = h2.NewBlock(h2.Field{Name: "grpc-status", Value: "0"})
)

func newCanned(from answering) (*canned, error) {
	m := &pb.SimpleResponse{Payload: &pb.Payload{Body: make([]byte, 100)}}
	message, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	text, err := framed(m)
	if err != nil {
		return nil, err
	}
	return &canned{message: message, framed: text, from: from}, nil
}

func (c *canned) serve(nc net.Conn) error {
	conn, err := h2.NewServer(nc, c, h2.Config{})
	if err != nil {
		return err
	}
	conn.Start(func(error) {})
	return nil
}

func (c *canned) OnHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	// Value is the response until it is sent.
	s.Value = c.framed
	if t, _ := h.Get("content-type"); t == "application/proto" {
		s.Value = c.message
	}
	if e == h2.End {
		c.end(s)
	}
}

func (c *canned) OnData(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	s.Consumed(b.Len())
	b.Free()
	if e == h2.End {
		c.end(s)
	}
}

func (c *canned) OnReset(s *h2.Stream, _ error) {
	if s.Value != nil {
		s.Release()
	}
}

func (c *canned) end(s *h2.Stream) {
	response := s.Value.([]byte)
	s.Value = nil
	if c.from == onGoroutine {
		go c.answer(s, response)
		return
	}
	c.answer(s, response)
}

func (c *canned) answer(s *h2.Stream, response []byte) {
	o := h2.Out{Block: responseConnect, Data: tarn.Shared().Copy(response), Ending: h2.End}
	if len(response) == len(c.framed) {
		o.Block, o.TrailerBlock = responseGRPC, statusOK
	}
	_ = s.Post(&o) // the client may have closed the connection
	s.Release()
}
