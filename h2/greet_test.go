package h2_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/tarntest"
)

// TestBothGreetFirst has both sides begin over a connection in which a write waits for a
// read: neither may send its SETTINGS to the end before it reads.
func TestBothGreetFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := tarntest.NewPool(t)
		c, s := net.Pipe()
		server, err := h2.NewServer(s, shout{}, h2.Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		client, err := h2.NewClient(c, caller{}, h2.Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		go server.Run()
		go client.Run()
		synctest.Wait()
		a := &answer{done: make(chan error, 1)}
		stream, err := client.Open(context.Background(), a, &h2.Out{
			Block: request, Data: pool.Copy([]byte("hello")), Ending: h2.End,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-a.done; err != nil || string(a.body) != "hello!" {
			t.Error(string(a.body), err)
		}
		stream.Release()
		client.Shutdown("")
		<-client.Done()
		<-server.Done()
	})
}
