package h2_test

import (
	"context"
	"fmt"
	"net"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// shout answers each request with its body and an exclamation mark.
type shout struct{}

var (
	request  = h2.NewBlock(h2.Field{Name: ":method", Value: "POST"}, h2.Field{Name: ":scheme", Value: "http"}, h2.Field{Name: ":path", Value: "/shout"})
	response = h2.NewBlock(h2.Field{Name: ":status", Value: "200"})
)

func (shout) OnHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	if s.Value == nil {
		s.Value = new(tarn.Chain)
	}
}

func (shout) OnData(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	body := s.Value.(*tarn.Chain)
	s.Consumed(b.Len())
	body.Append(b) // takes ownership
	if e == h2.End {
		body.Append(tarn.Shared().Copy([]byte("!")))
		s.Post(&h2.Out{Block: response, Rest: body, Ending: h2.End}) // takes ownership; does not wait
		s.Release()
	}
}

func (shout) OnReset(s *h2.Stream, err error) {
	s.Value.(*tarn.Chain).Free()
	s.Release()
}

// answer is what a client keeps for a stream.
type answer struct {
	body []byte
	done chan error
}

type caller struct{}

func (caller) OnHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {}

func (caller) OnData(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	a := s.Value.(*answer)
	a.body = b.AppendTo(a.body)
	s.Consumed(b.Len())
	b.Free()
	if e == h2.End {
		a.done <- nil
	}
}

func (caller) OnReset(s *h2.Stream, err error) { s.Value.(*answer).done <- err }

func Example() {
	c, s := net.Pipe()
	server, err := h2.NewServer(s, shout{}, h2.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := h2.NewClient(c, caller{}, h2.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	go server.Run()
	go client.Run()

	a := &answer{done: make(chan error, 1)}
	stream, err := client.Open(context.Background(), a, &h2.Out{
		Block: request, Data: tarn.Shared().Copy([]byte("hello")), Ending: h2.End,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = <-a.done
	fmt.Println(string(a.body), err)
	stream.Release()
	client.Shutdown("")
	<-client.Done()
	// Output: hello! <nil>
}

// A protocol's server makes all its connections with one Maker: the configuration is checked once, limits hold for all
// together, and they are counted. Report gives the debug page what it shows of them.
func ExampleMaker() {
	servers, err := h2.Servers(h2.Config{MaxStreams: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	clients, err := h2.Clients(h2.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, b := net.Pipe()
	server, client := servers.Make(b, shout{}), clients.Make(a, caller{})
	ended := make(chan error, 1)
	server.Start(func(err error) { ended <- err }) // no goroutine waits
	go client.Run()

	reply := &answer{done: make(chan error, 1)}
	stream, err := client.Open(context.Background(), reply, &h2.Out{Block: request, Data: tarn.Shared().Copy([]byte("hello")), Ending: h2.End})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-reply.done
	stream.Release()

	busiest, all := servers.Connections(1) // what an endpoint.Source gives the debug page
	fmt.Println(all, busiest[0].Draining, servers.Stats().Refused)

	client.Shutdown("")
	<-client.Done()
	<-ended
	fmt.Println(servers.Stats().Conns)
	// Output:
	// 1 false 0
	// 0
}
